#pragma once

namespace gc {
inline constexpr char kVersion[] = "0.1";
inline constexpr char kCompiler[] = "gguf-compile 0.1";
}  // namespace gc
