// agentmath._C.decode: numpy views in and out, nothing kept. Wrong shapes raise ValueError.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>

#include <cstdint>
#include <optional>
#include <stdexcept>

#include "bindings/rooms.h"
#include "decode/operators.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace agentmath {
namespace {

template <int N>
using In = nb::ndarray<const float, nb::ndim<N>, nb::c_contig, nb::device::cpu>;
template <int N>
using Out = nb::ndarray<float, nb::ndim<N>, nb::c_contig, nb::device::cpu>;
using Longs = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <typename Array>
std::int64_t Size(const Array& array, int axis) {
  return static_cast<std::int64_t>(array.shape(axis));
}

void Demand(bool fits, const char* who) {
  if (!fits) throw nb::value_error(who);
}

void BindRmsNorm(const In<2>& x, const In<1>& weight, float eps, const Out<2>& out) {
  const std::int64_t tokens = Size(x, 0), width = Size(x, 1);
  Demand(SupportsWidth(width) && Size(weight, 0) == width && Size(out, 0) == tokens &&
             Size(out, 1) == width,
         "rms_norm: x and out must be [T, H], weight [H], H a multiple of 8");
  RmsNorm(x.data(), weight.data(), eps, tokens, width, out.data());
}

void BindNormAndRotate(const Out<3>& heads, const std::optional<In<1>>& weight, float eps,
                       const In<2>& cos, const In<2>& sin) {
  const HeadsShape shape{Size(heads, 0), Size(heads, 1), Size(heads, 2)};
  bool fits = SupportsWidth(shape.head_size / 2) && shape.head_size % 2 == 0;
  fits = fits && (!weight || Size(*weight, 0) == shape.head_size);
  for (const In<2>* table : {&cos, &sin}) {
    fits = fits && Size(*table, 0) == shape.tokens && Size(*table, 1) == shape.head_size;
  }
  Demand(fits,
         "norm_and_rotate: heads must be [T, n, D], cos and sin [T, D], weight [D], D a multiple "
         "of 16");
  NormAndRotate(shape, weight ? weight->data() : nullptr, eps, cos.data(), sin.data(),
                heads.data());
}

void BindSwiGlu(const Out<2>& gate, const In<2>& up) {
  const std::int64_t count = Size(gate, 0) * Size(gate, 1);
  Demand(Size(up, 0) == Size(gate, 0) && Size(up, 1) == Size(gate, 1) && count % 8 == 0,
         "swiglu: gate and up must have one shape, its size a multiple of 8");
  SwiGlu(up.data(), count, gate.data());
}

void BindAttend(const In<3>& query, const In<3>& keys, const In<3>& values, const Longs& contexts,
                float scale, int threads, const Out<3>& out) {
  OneTokenShape shape{Size(query, 0), Size(query, 1), 1, Size(query, 2), Size(keys, 1), scale};
  const std::int64_t width = Size(keys, 2);
  bool fits = SupportsHeadSize(shape.head_size) && width > 0 && width % shape.head_size == 0;
  if (fits) shape.key_heads = width / shape.head_size;
  fits = fits && shape.query_heads % shape.key_heads == 0 && shape.rows <= Size(keys, 0);
  fits = fits && Size(contexts, 0) == shape.rows;
  for (int i = 0; i < 3; ++i)
    fits = fits && keys.shape(i) == values.shape(i) && query.shape(i) == out.shape(i);
  for (std::int64_t a = 0; fits && a < shape.rows; ++a) {
    fits = contexts.data()[a] >= 1 && contexts.data()[a] <= shape.positions;
  }
  Demand(fits,
         "attend_one_token: query and out must be [A, Q, D], keys and values [S, C, K * D], "
         "contexts [A] in 1..C");
  nb::gil_scoped_release release;
  AttendOneToken(shape, query.data(), keys.data(), values.data(), contexts.data(), out.data(),
                 threads);
}

}  // namespace

void BindDecode(nb::module_& parent) {
  nb::module_ m =
      parent.def_submodule("decode", "Small operators of a decoding step, float32 on the CPU.");
  m.def("supports_width", &SupportsWidth, "width"_a);
  m.def("supports_head_size", &SupportsHeadSize, "head_size"_a);
  m.def("rms_norm", &BindRmsNorm, "x"_a, "weight"_a, "eps"_a, "out"_a);
  m.def("norm_and_rotate", &BindNormAndRotate, "heads"_a, "weight"_a.none(), "eps"_a, "cos"_a,
        "sin"_a);
  m.def("swiglu", &BindSwiGlu, "gate"_a, "up"_a);
  m.def("attend_one_token", &BindAttend, "query"_a, "keys"_a, "values"_a, "contexts"_a, "scale"_a,
        "threads"_a, "out"_a);
}

}  // namespace agentmath
