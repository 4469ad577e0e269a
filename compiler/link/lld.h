// LLD in process, from memory to memory.
//
// LLD takes paths, so inputs are memfds named through /proc/self/fd and the output is a pipe: LLD writes to what is
// no regular file in one piece from a buffer, where a regular path would get a temporary of LLD's own beside it that
// nobody removes after a signal. Where /proc is missing, scratch files in `scratch_dir` take their place.
// LLD has global state: two links at once corrupt it, so one mutex guards them all.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace gc::link {

// An argument of the linker's command line, in order: a flag, or a file given by its bytes (object or archive).
struct LinkerArg {
  std::string text;  // the flag, or the file's name for messages and the map
  std::span<const std::uint8_t> bytes;
  bool is_file = false;

  static LinkerArg flag(std::string text) { return {std::move(text), {}, false}; }
  static LinkerArg file(std::string name, std::span<const std::uint8_t> bytes) {
    return {std::move(name), bytes, true};
  }
};

struct LinkerOutput {
  std::vector<std::uint8_t> program;
  std::string map;  // LLD's text; input files by the names given
};

// Throws InternalError with LLD's text when the link fails: what goes in is all ours.
LinkerOutput run_lld(std::span<const LinkerArg> args, const std::string& scratch_dir);

// An object joined from others, for somebody else's linker: `keep` are its only global symbols and get the names that they
// are mapped to; all that is defined is local, COMDAT groups with it, and names of sources and tools are gone.
std::vector<std::uint8_t> localize_object(std::span<const std::uint8_t> object,
                                          const std::map<std::string, std::string>& keep);

// Without symbols (unless kept), .comment and debug information: names of sources and versions of tools are no part
// of a program that depends on its inputs alone.
std::vector<std::uint8_t> strip_program(std::span<const std::uint8_t> elf, bool keep_symbols);

}  // namespace gc::link
