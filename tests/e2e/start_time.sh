# Starting costs next to nothing: no vocabulary is built, no weight is read ahead or copied. From exec to the end of a
# run that makes one token takes no longer than 8 further tokens do (a start that read or built anything of the
# model's size would take tens of them). Best of several runs, page cache warm.
source "$(dirname "$0")/../lib/e2e.sh"

compile "$gemma3_gguf" "$work/gemma3"
python - "$work/gemma3" <<'PY'
import subprocess, sys, time

def seconds(n):
    best = 1e9
    for _ in range(7):
        start = time.perf_counter()
        subprocess.run([sys.argv[1], "-p", "The capital of France", "-n", str(n), "--temp", "0", "--ignore-eos"],
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
        best = min(best, time.perf_counter() - start)
    return best

first, many = seconds(1), seconds(33)
token = (many - first) / 32
print(f"first token {1000 * first:.1f} ms after exec, {1000 * token:.2f} ms for each further one")
sys.exit(first > 8 * token)
PY
