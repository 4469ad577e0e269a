#include "codegen_cpu/tune.h"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>

#include "codegen_cpu/act_layout.h"
#include "codegen_cpu/jit.h"
#include "codegen_cpu/kernels/matmul/matmul.h"
#include "compiler/base/error.h"
#include "compiler/base/strings.h"
#include "compiler/quant/layouts.h"

namespace gc::cpu {
namespace {

using MatmulFn = void(const std::uint8_t* panels, const void* x, std::int64_t x_stride, float* y,
                      std::int64_t y_stride, std::int64_t n_panels, std::int64_t n_rows);

constexpr std::int64_t kMemory = std::int64_t{24} << 20;
constexpr std::int64_t kMostRows = 16, kPanelsAtOnce = 64;
constexpr double kSeconds = 0.03;  // of samples of one candidate
constexpr double kGain = 0.97;     // of the time: what is worth another shape

// Zeroed memory of whole pages, given back at the end.
class Memory {
 public:
  explicit Memory(std::int64_t bytes) : bytes_(static_cast<std::size_t>(bytes)) {
    void* p = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) throw_user("not enough memory for tuning");
    data_ = static_cast<std::uint8_t*>(p);
  }
  ~Memory() { munmap(data_, bytes_); }
  Memory(const Memory&) = delete;
  std::uint8_t* data() { return data_; }
  void fill(std::uint8_t value) { std::memset(data_, value, bytes_); }

 private:
  std::uint8_t* data_;
  std::size_t bytes_;
};

// A product with candidates for its shapes.
class Product {
 public:
  Product(const Isa& isa, const TunedProduct& product)
      : isa_(isa),
        product_(product),
        panel_(panel_bytes(product.format, product.k)),
        panels_(std::max<std::int64_t>(kMemory / panel_ / kPanelsAtOnce, 1) * kPanelsAtOnce),
        weights_(panels_ * panel_ + 65536 * 2),  // prefetches run past the end
        x_(kMostRows * act_row_bytes(product.k)),
        y_(kMostRows * kPanelsAtOnce * 64) {
    weights_.fill(0x11);  // f16 scales of 6e-4; what values are doesn't matter
    x_.fill(0x3c);        // scales of 0.01
  }

  RowShapes choose() {
    RowShapes best = product_.shapes;
    one_row(best);
    if (isa_.has_amx) several_rows(best);
    return best;
  }

 private:
  // Kernels of given shapes, compiled.
  class Candidate {
   public:
    Candidate(Product& product, const RowShapes& shapes) : product_(product) {
      Emitter e(context_, product.isa_, "tune");
      const TunedProduct& p = product.product_;
      const TunedProduct tuned[] = {{p.format, p.k, shapes}};
      set_shapes(e, tuned);
      const MatmulSpec spec{p.format, p.k, matmul_input(p.format)};
      matmul(e, spec);
      jit_ = std::make_unique<Jit>(e);
      f_ = jit_->get<MatmulFn>(matmul_name(spec));
    }
    // The least time of a pass over the weights.
    double seconds(std::int64_t rows) {
      double best = 1e9, total = 0;
      for (int i = 0; i < 3 || total < kSeconds; ++i) {
        const auto begin = std::chrono::steady_clock::now();
        for (std::int64_t p = 0; p < product_.panels_; p += kPanelsAtOnce)
          f_(product_.weights_.data() + p * product_.panel_, product_.x_.data(),
             act_row_bytes(product_.product_.k), reinterpret_cast<float*>(product_.y_.data()),
             kPanelsAtOnce * 64, kPanelsAtOnce, rows);
        const double t = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
        best = std::min(best, t);
        total += t;
      }
      return best;
    }

   private:
    Product& product_;
    llvm::LLVMContext context_;
    std::unique_ptr<Jit> jit_;
    MatmulFn* f_;
  };

  // `member` of the shapes as `values` has it where that is faster for the rows.
  void pick(RowShapes& best, std::int64_t RowShapes::* member, std::initializer_list<std::int64_t> values,
            std::int64_t rows, std::int64_t tile_rows) {
    RowShapes measured = best;
    measured.tile_rows = tile_rows;
    double least = Candidate(*this, measured).seconds(rows);
    for (std::int64_t value : values) {
      if (value == best.*member) continue;
      measured.*member = value;
      const double t = Candidate(*this, measured).seconds(rows);
      if (t > least * kGain) continue;
      least = t;
      best.*member = value;
    }
  }
  void one_row(RowShapes& best) {
    pick(best, &RowShapes::row_panels, {2, 4}, 1, best.tile_rows);
    pick(best, &RowShapes::ahead, {2048, 4096, 8192, 24576}, 1, best.tile_rows);
  }
  void several_rows(RowShapes& best) {
    constexpr std::int64_t kNever = kMostRows + 1;
    pick(best, &RowShapes::chunk_groups, {2, 3, 4}, kMostRows, 2);
    RowShapes vectors = best, tiles = best;
    vectors.tile_rows = kNever;
    tiles.tile_rows = 2;
    Candidate by_vectors(*this, vectors), by_tiles(*this, tiles);
    best.tile_rows = kNever;
    for (std::int64_t rows : {16, 8, 6, 4, 3, 2}) {
      if (by_tiles.seconds(rows) > by_vectors.seconds(rows)) break;
      best.tile_rows = rows;
    }
  }

  const Isa& isa_;
  const TunedProduct& product_;
  const std::int64_t panel_, panels_;
  Memory weights_, x_, y_;
};

}  // namespace

std::vector<TunedProduct> products_of(const plan::Plan& plan, const Isa& isa) {
  std::vector<TunedProduct> products;
  for (const plan::Packed& packed : plan.packed) {
    const Format format = plan.graph.weight(packed.weight).format;
    if (packed.kind != plan::Packed::Kind::Panels || layout_for(format).is_float()) continue;
    const bool known = std::any_of(products.begin(), products.end(), [&](const TunedProduct& p) {
      return p.format == format && p.k == packed.cols;
    });
    if (!known) products.push_back({format, packed.cols, usual_shapes(isa, format)});
  }
  return products;
}

Tuning tune(const Isa& isa, std::vector<TunedProduct> products,
            const std::function<void(std::string_view)>& say) {
  GC_CHECK(host_runs(isa), isa.name);
  for (TunedProduct& product : products) {
    product.shapes = Product(isa, product).choose();
    std::string line = cat(isa.name, " ", info(product.format).text_name, " ", product.k, ":");
    for (const ShapeInfo& shape : shape_infos())
      line += cat(" ", shape.name, " ", product.shapes.*shape.member);
    say(line);
  }
  return {std::string(isa.name), std::move(products)};
}

}  // namespace gc::cpu
