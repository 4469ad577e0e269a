#include "codegen_cpu/kernels/matmul/matmul.h"

#include <string>

#include "codegen_cpu/kernels/matmul/emit.h"
#include "compiler/base/error.h"

namespace gc::cpu {

using llvm::Value;

namespace {

struct Row {
  Format format;
  ir::Elem input;
  void (*emit)(Emitter&, const MatmulSpec&, const Args&);
};

constexpr Row kRows[] = {
#define MATMUL(format, input, emit) {Format::format, ir::Elem::input, emit},
#include "codegen_cpu/kernels/matmul/kernels.def"
#undef MATMUL
};

const Row& row_for(Format format) {
  for (const Row& row : kRows) {
    if (row.format == format) return row;
  }
  throw_unsupported("products with weights of type ", name(format),
                    " (no row in kernels/matmul/kernels.def)");
}

}  // namespace

std::span<const Format> matmul_formats() {
  static const std::vector<Format> formats = [] {
    std::vector<Format> all;
    for (const Row& row : kRows) all.push_back(row.format);
    return all;
  }();
  return formats;
}

ir::Elem matmul_input(Format format) { return row_for(format).input; }

std::string matmul_name(const MatmulSpec& spec) {
  return "matmul_" + std::string(info(spec.format).text_name) + "_" + ir::name(spec.input) + "_" +
         std::to_string(spec.k);
}

llvm::Function* matmul(Emitter& e, const MatmulSpec& spec) {
  const Row& row = row_for(spec.format);
  GC_CHECK(spec.input == row.input, matmul_name(spec));
  GC_CHECK(spec.k > 0 && (row.input == ir::Elem::F32 || spec.k % 32 == 0), matmul_name(spec));
  return e.function(
      matmul_name(spec),
      {in("panels"), in("x"), i64("x_stride"), out("y"), i64("y_stride"), i64("n_panels"), i64("n_rows")},
      [&](const Args& args) { row.emit(e, spec, args); });
}

std::vector<Arg> numbered(const char* stem, int n, Arg::Kind kind) {
  static constexpr const char* kNames[][4] = {{"w0", "w1", "w2", "w3"}, {"y0", "y1", "y2", "y3"}};
  GC_CHECK(n <= 4 && (stem[0] == 'w' || stem[0] == 'y'));
  std::vector<Arg> args;
  for (int i = 0; i < n; ++i) args.push_back({kNames[stem[0] == 'y'][i], kind});
  return args;
}

void over_tiles(Emitter& e, const TileShapes& shapes, Value* n,
                const std::function<void(Value*, int)>& tile) {
  auto& b = e.b();
  // `count` tiles, `taller` of them with one row more than the others.
  Value* count = b.CreateUDiv(b.CreateAdd(n, e.i64(shapes.rows - 1)), e.i64(shapes.rows));
  Value* low = b.CreateUDiv(n, count);
  Value* taller = b.CreateURem(n, count);
  Value* begin = e.i64(0);
  for (int rows = shapes.rows; rows >= 1; --rows) {
    Value* tiles = b.CreateSelect(b.CreateICmpEQ(low, e.i64(rows)), b.CreateSub(count, taller), e.i64(0));
    if (rows > 1) tiles = b.CreateSelect(b.CreateICmpEQ(low, e.i64(rows - 1)), taller, tiles);
    Value* end = b.CreateAdd(begin, b.CreateMul(tiles, e.i64(rows)));
    e.for_range(begin, end, rows, [&](Value* t) { tile(t, rows); });
    begin = end;
  }
}

void over_panels(Emitter& e, Value* n_panels, int width,
                 const std::function<void(Value*, const Emitter::Values&)>& body) {
  auto& b = e.b();
  Value* last = b.CreateSub(n_panels, e.i64(1));
  e.for_range(e.i64(0), n_panels, width, [&](Value* first) {
    Emitter::Values indices{first};
    for (int j = 1; j < width; ++j) {
      Value* index = b.CreateAdd(first, e.i64(j));
      indices.push_back(b.CreateSelect(b.CreateICmpSLT(index, last), index, last));
    }
    body(first, indices);
  });
}

}  // namespace gc::cpu
