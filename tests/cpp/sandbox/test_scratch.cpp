#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "check.h"
#include "core/descriptor.h"
#include "sandbox/scratch.h"

using agentmath::Descriptor;
using agentmath::sandbox::RemoveTree;
using agentmath::sandbox::ScratchSlots;
using agentmath::sandbox::Slot;

namespace {

// A folder that is removed with everything in it.
class Folder {
 public:
  Folder() {
    char name[] = "/tmp/agentmath-test-XXXXXX";
    CHECK(mkdtemp(name) != nullptr);
    path_ = name;
  }
  ~Folder() { RemoveTree(path_); }

  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

bool Exists(const std::string& path) {
  struct stat facts{};
  return lstat(path.c_str(), &facts) == 0;
}

void Write(const std::string& path) {
  const Descriptor file(open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  CHECK_EQUAL(write(file.get(), "x", 1), 1);
}

}  // namespace

TEST(a_tree_deeper_than_any_path_is_removed) {
  const Folder folder;
  const std::string top = folder / "top";
  CHECK_EQUAL(mkdir(top.c_str(), 0700), 0);
  Descriptor here(open(top.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  for (int depth = 0; depth < 1500; ++depth) {
    CHECK_EQUAL(mkdirat(here.get(), "deeper", 0700), 0);
    here = Descriptor(openat(here.get(), "deeper", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  }
  RemoveTree(top);
  CHECK(!Exists(top) && !Exists(top + ".removed"));
}

TEST(removal_follows_no_link) {
  const Folder folder;
  const std::string top = folder / "top";
  const std::string kept = folder / "kept";
  CHECK_EQUAL(mkdir(top.c_str(), 0700), 0);
  CHECK_EQUAL(mkdir(kept.c_str(), 0700), 0);
  Write(kept + "/file");
  CHECK_EQUAL(symlink(kept.c_str(), (top + "/link").c_str()), 0);
  RemoveTree(top);
  CHECK(!Exists(top));
  CHECK(Exists(kept + "/file"));
}

TEST(names_and_modes_of_all_kinds_are_removed) {
  const Folder folder;
  const std::string top = folder / "top";
  CHECK_EQUAL(mkdir(top.c_str(), 0700), 0);
  for (const std::string& name : {std::string("new\nline"), std::string("\xFF\xFE"),
                                  std::string(255, 'n'), std::string("0")}) {
    CHECK_EQUAL(mkdir((top + "/" + name).c_str(), 0700), 0);
    Write(top + "/" + name + "/file");
  }
  CHECK_EQUAL(mkfifo((top + "/fifo").c_str(), 0600), 0);
  CHECK_EQUAL(mkdir((top + "/closed").c_str(), 0000), 0);
  RemoveTree(top);
  CHECK(!Exists(top));
}

TEST(a_folder_is_handed_on_when_empty_and_removed_otherwise) {
  const Folder folder;
  const std::string base = folder / "base";
  CHECK_EQUAL(mkdir(base.c_str(), 0700), 0);
  ScratchSlots slots({base, false, false, {}});
  Slot first = slots.Take(1000);
  const std::string path = first.path;
  slots.GiveBack(std::move(first));
  Slot again = slots.Take(1);
  CHECK_EQUAL(again.path, path);  // both ask for less than the smallest size there is
  Write(path + "/left behind");
  slots.GiveBack(std::move(again));
  CHECK(!Exists(path));
  CHECK(slots.Take(1).path != path);
}
