#include "sandbox/supervisor.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <utility>

#include "core/error.h"

namespace agentmath::sandbox {

Supervisor::Supervisor(DispatcherSettings settings)
    : owner_(getpid()),
      mailbox_(std::make_unique<Mailbox>()),
      dispatcher_(std::make_unique<Dispatcher>(std::move(settings), mailbox_.get())) {
  // Signals are for the threads that were there before.
  sigset_t all;
  sigset_t usual;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &usual);
  thread_ = std::thread([this] { Serve(); });
  pthread_sigmask(SIG_SETMASK, &usual, nullptr);
}

Supervisor::~Supervisor() {
  if (getpid() == owner_) {
    Close();
    return;
  }
  // Neither zygotes nor thread are this process's to end.
  thread_.detach();
  (void)dispatcher_.release();
  (void)mailbox_.release();
}

void Supervisor::Close() {
  if (getpid() != owner_ || !thread_.joinable()) return;
  Order end;
  end.want = Want::kEnd;
  mailbox_->Post(std::move(end));
  thread_.join();
  dispatcher_.reset();
  mailbox_->Close();
}

void Supervisor::Serve() {
  try {
    dispatcher_->Run();
  } catch (const Error& error) {
    dispatcher_->Fail(error.what());
  }
}

}  // namespace agentmath::sandbox
