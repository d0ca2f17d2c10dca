#!/bin/sh
# Installs Chromium for the browser tests on Debian and Ubuntu. Says nothing and
# does nothing when a browser is there already.
set -eu

for browser in chromium chromium-browser google-chrome; do
	if command -v "$browser" >/dev/null 2>&1; then
		exit 0
	fi
done

if ! command -v apt-get >/dev/null 2>&1; then
	echo "install.sh: no apt-get here: install Chromium by hand and put it on the PATH" >&2
	exit 1
fi

as_root=
if [ "$(id -u)" -ne 0 ]; then
	as_root=sudo
fi

# A failing apt-get must show what it said; a good one need not.
output=$(mktemp)
trap 'rm -f "$output"' EXIT
if ! {
	$as_root apt-get update -q &&
		$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends chromium
} >"$output" 2>&1; then
	cat "$output" >&2
	exit 1
fi
