// agentmath._C.loss: DLPack views in and out, nothing kept. Wrong shapes raise ValueError.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>

#include <cstdint>
#include <optional>

#include "bindings/rooms.h"
#include "loss/rows.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace agentmath {
namespace {

using Logits = nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Row = nb::ndarray<float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using ConstRow = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Ids = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// The figures of a chunk as the caller's four arrays.
struct Figures {
  Row peak, log_sum, logprob;
  std::optional<Row> entropy;

  RowFigures Pointers() const {
    return {peak.data(), log_sum.data(), logprob.data(), entropy ? entropy->data() : nullptr};
  }
};

LogitRows Shape(const Logits& logits, const Ids& targets, const Figures& figures,
                float inverse_temperature) {
  const LogitRows shape{static_cast<std::int64_t>(logits.shape(0)),
                        static_cast<std::int64_t>(logits.shape(1)), inverse_temperature};
  const std::size_t rows = logits.shape(0);
  bool fits = targets.shape(0) == rows && shape.vocab > 0 && inverse_temperature > 0;
  for (const Row* figure : {&figures.peak, &figures.log_sum, &figures.logprob})
    fits = fits && figure->shape(0) == rows;
  fits = fits && (!figures.entropy || figures.entropy->shape(0) == rows);
  for (std::size_t r = 0; fits && r < rows; ++r)
    fits = targets.data()[r] >= 0 && targets.data()[r] < shape.vocab;
  if (!fits)
    throw nb::value_error(
        "logits must be [C, V], targets [C] in 0..V-1, figures and slopes [C], the inverse "
        "temperature above 0");
  return shape;
}

void BindRead(const Logits& logits, const Ids& targets, float inverse_temperature,
              const Figures& figures, int threads) {
  const LogitRows shape = Shape(logits, targets, figures, inverse_temperature);
  nb::gil_scoped_release release;
  ReadRows(shape, logits.data(), targets.data(), figures.Pointers(), threads);
}

void BindWrite(const Logits& logits, const Ids& targets, float inverse_temperature,
               const Figures& figures, const ConstRow& by_logprob,
               const std::optional<ConstRow>& by_entropy, int threads) {
  const LogitRows shape = Shape(logits, targets, figures, inverse_temperature);
  if (by_logprob.shape(0) != logits.shape(0) ||
      (by_entropy && (by_entropy->shape(0) != logits.shape(0) || !figures.entropy)))
    throw nb::value_error("slopes must be [C]; one by entropy needs the entropies that were read");
  nb::gil_scoped_release release;
  WriteGradients(shape, logits.data(), targets.data(), figures.Pointers(),
                 {by_logprob.data(), by_entropy ? by_entropy->data() : nullptr}, threads);
}

}  // namespace

void BindLoss(nb::module_& parent) {
  nb::module_ m = parent.def_submodule("loss", "Rows of vocabulary logits, float32 on the CPU.");
  nb::class_<Figures>(m, "Figures", "peak, log_sum, logprob and, if wanted, entropy, each [C].")
      .def(
          "__init__",
          [](Figures* self, Row peak, Row log_sum, Row logprob, std::optional<Row> entropy) {
            new (self) Figures{std::move(peak), std::move(log_sum), std::move(logprob),
                               std::move(entropy)};
          },
          "peak"_a, "log_sum"_a, "logprob"_a, "entropy"_a.none());
  m.def("read_rows", &BindRead, "logits"_a, "targets"_a, "inverse_temperature"_a, "figures"_a,
        "threads"_a);
  m.def("write_gradients", &BindWrite, "logits"_a, "targets"_a, "inverse_temperature"_a,
        "figures"_a, "by_logprob"_a, "by_entropy"_a.none(), "threads"_a);
}

}  // namespace agentmath
