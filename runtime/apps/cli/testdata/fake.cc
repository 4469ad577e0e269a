// The program that a compiled model is, around a fake one. Called by a name that ends in "-damaged", its weights are; "-plain": it has no
// chat template.
#include <string_view>

#include "runtime/apps/cli/app.h"
#include "runtime/generate/testdata/fake_model.h"

int main(int argc, char** argv) {
  if (argc > 0 && std::string_view(argv[0]).ends_with("-damaged")) fake::damage_weights();
  if (argc > 0 && std::string_view(argv[0]).ends_with("-plain")) fake::remove_template();
  return gcrt::run_cli(argc, argv);
}
