// The program that a compiled model is, around a fake one. Called by a name that ends in "-damaged", its weights are.
#include <string_view>

#include "runtime/apps/cli/app.h"
#include "runtime/generate/testdata/fake_model.h"

int main(int argc, char** argv) {
  if (argc > 0 && std::string_view(argv[0]).ends_with("-damaged")) fake::damage_weights();
  return gcrt::run_cli(argc, argv);
}
