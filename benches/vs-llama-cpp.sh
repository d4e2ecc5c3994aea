#!/usr/bin/env bash
# batchroom against llama.cpp's llama-batched-bench: the same file, the same threads, in turn, pair by pair.
set -euo pipefail

usage() {
  cat <<'TEXT'
usage: benches/vs-llama-cpp.sh LLAMA_BATCHED_BENCH MODEL.gguf [PAIRS]

Runs llama.cpp's llama-batched-bench and `batchroom bench` in turn on one model file, PAIRS times (default 3), and
prints for each number of users the ratio batchroom / llama.cpp of all users' decode tokens per second, and of prefill:
the median over the pairs, with the lowest and the highest.

  LLAMA_BATCHED_BENCH   the program, built for this machine (cmake -DGGML_NATIVE=ON --target llama-batched-bench)
  MODEL.gguf            a model of the Llama family that both can run

Environment:
  THREADS     compute threads of both                  [default: physical cores]
  USERS       numbers of users, separated by commas    [default: 1,2,4,8,16,32]
  PROMPT      tokens of each prompt                    [default: 128]
  NEW         tokens of each answer                    [default: 64]
  BATCHROOM   the program                              [default: target/release/batchroom of this repository]
  LLAMA_ARGS  more arguments for llama-batched-bench, for instance "-fa on"

Both need the machine for themselves: another busy program slows them by very different factors.
It needs bash and python3 (its standard library only). Build batchroom first: cargo build --release
TEXT
}

fail() {
  echo "vs-llama-cpp.sh: $1" >&2
  exit 1
}

case "${1:-}" in
  -h | --help) usage; exit 0 ;;
esac
if [ $# -lt 2 ] || [ $# -gt 3 ]; then
  usage >&2
  exit 2
fi

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
llama=$1 model=$2 pairs=${3:-3}
batchroom=${BATCHROOM:-$root/target/release/batchroom}
users=${USERS:-1,2,4,8,16,32} prompt=${PROMPT:-128} new=${NEW:-64}

command -v python3 >/dev/null || fail "python3 is not there: it works out the ratios"
command -v "$llama" >/dev/null || fail "$llama is no program: give the path of llama-batched-bench"
[ -f "$model" ] || fail "there is no file $model"
[ -x "$batchroom" ] || fail "$batchroom is not there: build it with \`cargo build --release\`, or set BATCHROOM"
[[ $pairs =~ ^[1-9][0-9]?$ ]] || fail "PAIRS is $pairs: it must be from 1 to 99"
[[ $users =~ ^[1-9][0-9]*(,[1-9][0-9]*)*$ ]] || fail "USERS is $users: give numbers such as 1,4,16"
for number in "$prompt" "$new" ${THREADS:+"$THREADS"}; do
  [[ $number =~ ^[1-9][0-9]*$ ]] || fail "$number is no number: PROMPT, NEW and THREADS must be from 1"
done

physical_cores() {
  local cores=0
  if [ -r /proc/cpuinfo ]; then
    cores=$(awk -F: '/^physical id/ { package = $2 } /^core id/ { seen[package, $2] = 1 }
                     END { for (core in seen) count++; print count + 0 }' /proc/cpuinfo)
  fi
  if [ "$cores" -gt 0 ]; then echo "$cores"; else getconf _NPROCESSORS_ONLN; fi
}
threads=${THREADS:-$(physical_cores)}

most=$(tr , '\n' <<<"$users" | sort -n | tail -n 1)
# Room for every sequence at once, in llama.cpp's steps of 256; it leaves out what does not fit.
context=$((most * ((prompt + new + 255) / 256 * 256)))

if [ -r /proc/loadavg ]; then
  read -r load _ </proc/loadavg
  if awk -v load="$load" 'BEGIN { exit !(load > 0.5) }'; then
    echo "vs-llama-cpp.sh: warning: other programs are busy (load $load): the ratios will say little" >&2
  fi
fi

results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT

run_llama() {
  # shellcheck disable=SC2086  # LLAMA_ARGS is meant to be split.
  "$llama" -m "$model" -c "$context" -npp "$prompt" -ntg "$new" -npl "$users" -t "$threads" -tb "$threads" \
    --output-format jsonl ${LLAMA_ARGS:-} >"$results/llama.$1" 2>"$results/errors" || {
    tail -n 20 "$results/errors" >&2
    fail "$llama failed"
  }
}

run_batchroom() {
  "$batchroom" bench --model "$model" --threads "$threads" --users "$users" --prompt-tokens "$prompt" --new-tokens "$new" \
    --json >"$results/batchroom.$1" 2>"$results/errors" || {
    cat "$results/errors" >&2
    fail "batchroom bench failed"
  }
}

echo "$(basename "$model"), $threads threads, prompts of $prompt tokens, answers of $new, $pairs pairs"
for pair in $(seq "$pairs"); do
  [ -t 2 ] && printf '\rpair %s of %s ' "$pair" "$pairs" >&2
  # The first of a pair changes: what a machine does over time favours neither.
  if [ $((pair % 2)) -eq 1 ]; then
    run_llama "$pair"
    run_batchroom "$pair"
  else
    run_batchroom "$pair"
    run_llama "$pair"
  fi
done
[ -t 2 ] && printf '\r\033[K' >&2

python3 - "$results" "$pairs" <<'PYTHON'
import json, statistics, sys

folder, pairs = sys.argv[1], int(sys.argv[2])


def theirs(pair):
    """Tokens per second of decode and prefill by number of users."""
    decode, prefill = {}, {}
    for line in open(f"{folder}/llama.{pair}"):
        if line.lstrip().startswith("{"):
            row = json.loads(line)
            decode[row["pl"]], prefill[row["pl"]] = row["speed_tg"], row["speed_pp"]
    if not decode:
        sys.exit("vs-llama-cpp.sh: llama-batched-bench printed no figures: is --output-format jsonl known to it?")
    return decode, prefill


def ours(pair):
    report = json.load(open(f"{folder}/batchroom.{pair}"))
    device = report["device"]
    what = f"batchroom: {report['model']['types']}, {device['kernels']} kernels, {device['cpu']}"
    tables = [{row["users"]: row["tokens_per_s"] for row in report[table]} for table in ("decode", "prefill")]
    return what, *tables


runs = [(theirs(pair), ours(pair)) for pair in range(1, pairs + 1)]
print(runs[0][1][0])
for at, title in enumerate(["decode", "prefill"]):
    print(f"\n{title}, tok/s of all users (medians)\n{'users':>5} {'llama.cpp':>10} {'batchroom':>10} {'ratio':>7}   lowest to highest")
    counts = sorted(set(runs[0][0][at]) & set(runs[0][1][1 + at]))
    for users in counts:
        them = [their[at][users] for their, _ in runs]
        us = [our[1 + at][users] for _, our in runs]
        ratios = [b / a for a, b in zip(them, us)]
        middle = [statistics.median(values) for values in (them, us, ratios)]
        print(f"{users:>5} {middle[0]:>10,.0f} {middle[1]:>10,.0f} {middle[2]:>6.2f}x   {min(ratios):.2f} to {max(ratios):.2f}")
    missing = sorted(set(runs[0][1][1 + at]) - set(counts))
    if missing:
        print(f"      llama.cpp left out {', '.join(map(str, missing))} users")
PYTHON
