# Hostile and strange inputs by kind (tests/README.md): refused in one clean line or right, never a crash, a long wait or
# a half-written file.
source "$(dirname "$0")/../lib/e2e.sh"

python "$root/tests/cases/cases.py" "$compiler"
