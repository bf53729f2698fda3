#!/usr/bin/env bash
# Verify, and believe the outcome only with a report of this very run.
#
# Values come through the environment and go on as whole words: none is ever part of a command's text, and none can
# turn into an option. The configuration files and FORGEPACK_* variables of the checkout are not read: whoever
# changes a release must not be able to weaken its gate.
set -uo pipefail

fail() { # MESSAGE CODE: the message is ours, it holds no value
    printf '::error title=forgepack::%s\n' "$1"
    exit "$2"
}

args=(--isolated verify --whole)
add() { # OPTION VALUE
    case "$2" in
        *$'\n'* | *$'\r'*) fail "the input $1 holds a line end" 2 ;;
        ?*) args+=("--$1=$2") ;;
    esac
}

add bundle "${INPUT_BUNDLE-}"
add target "${INPUT_TARGET-}"
add quant "${INPUT_QUANT-}"
add checkpoint "${INPUT_CHECKPOINT-}"
add profile "${INPUT_PROFILE-}"
add depth "${INPUT_DEPTH-}"
case "${INPUT_STRICT:-false}" in
    true) args+=(--strict) ;;
    false) ;;
    *) fail "the input strict is true or false" 2 ;;
esac
case "${INPUT_DRAFTER-}${INPUT_SARIF-}" in
    *$'\n'* | *$'\r'*) fail "an input holds a line end" 2 ;;
esac

tool=forgepack
if [ "${INPUT_INSTALL:-true}" = true ]; then
    tool="$RUNNER_TEMP/forgepack-tool/bin/forgepack"
fi
command -v "$tool" >/dev/null || fail "forgepack is not installed" 70
for name in "${!FORGEPACK_@}"; do unset "$name"; done

# A new folder each time: a report that an earlier run left can't be taken for this one's.
folder="$(mktemp -d "$RUNNER_TEMP/forgepack-report.XXXXXX")" || fail "no folder for the report" 5
args+=("--report=json=$folder/report.json" "--report=sarif=$folder/report.sarif" --format=github)
if [ -n "${INPUT_DRAFTER-}" ]; then
    args+=(-- "$INPUT_DRAFTER")
fi
if [ -n "${INPUT_SARIF-}" ]; then
    rm -f -- "$INPUT_SARIF" || fail "an earlier SARIF report can't be removed" 5
fi

"$tool" "${args[@]}"
code=$?

verdict="$(python3 "$ACTION/action/check_report.py" "$folder" "$code")"
checked=$?
sarif="$folder/report.sarif"
if [ -s "$sarif" ] && [ -n "${INPUT_SARIF-}" ]; then
    cp -- "$sarif" "$INPUT_SARIF" || fail "the SARIF report can't be put where the input sarif says" 5
    sarif="$INPUT_SARIF"
fi
{
    printf 'exit-code=%s\n' "$code"
    printf 'verdict=%s\n' "$verdict"
    if [ -s "$sarif" ]; then printf 'sarif=%s\nreport=%s\n' "$sarif" "$folder/report.json"; fi
} >>"${GITHUB_OUTPUT:-/dev/null}"

if [ "$code" -ne 0 ]; then
    exit "$code"
fi
if [ "$checked" -ne 0 ] || [ "$verdict" != pass ]; then
    fail "the report is missing, empty or not of this run: no report is no pass" 70
fi
