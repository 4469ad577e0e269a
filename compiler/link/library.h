// A model as a part of somebody's program: a relocatable object, an archive of it, or a shared library.
//
//   objects + blobs + carried runtime --LLD -r, from the API's functions--> one object
//     --ObjCopy: all is local but the API's functions, which get the model's prefix; names of sources go--> joined
//   obj, archive: joined, with the weights as its last bytes: a section header that says so, so that only the linker of
//                 the user's program ever carries them (SHF_X86_64_LARGE: no 32-bit relocation counts on their place)
//   shared:       joined --LLD -shared, against stubs of libc and libm--> the executable's way with the weights
//
// Two models link into one program, next to anything: no other symbol is global, and COMDAT groups of local symbols are
// none. GNU objcopy leaves them groups and the second model then refers to discarded sections. `LLD -r` may not see
// crt1.o, whose .eh_frame it would pad in the middle; nothing here has start files.
// The host's libc serves (no piece of a static one is in here), at any version from 2.17 (libc_symbols.txt).
#pragma once

#include <string>

#include "compiler/link/artifact.h"

namespace gc::link {

ArtifactSizes link_library(const LinkInput& input, const std::string& output_path,
                           const LinkOptions& options);

}  // namespace gc::link
