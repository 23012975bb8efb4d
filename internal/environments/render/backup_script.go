// SPDX-License-Identifier: Apache-2.0

package render

// Scripts of the Jobs that back up and restore. Who and where is in the variables of libpq, so that no name needs quotes. Command
// substitution is written with backquotes: Kubernetes replaces $(NAME) in commands.

const scriptHead = `set -eu
umask 077
file="` + backupsPath + `/$` + backupEnv + `.dump"
`

// Functions about a dump as it is: dump writes it to a file, check fails if a file is not a whole one, and load restores it with more
// options of pg_restore.
const plainFunctions = `dump() { pg_dump --format=custom --no-owner --no-password --file="$1"; }
check() { pg_restore --list "$1" >/dev/null; }
load() { from="$1"; shift; pg_restore --no-owner --exit-on-error --no-password "$@" "$from"; }
`

// The same functions about an encrypted dump. sh has no pipefail: a file is there as long as pg_dump has not succeeded. pg_restore
// finds what a wrong key or a damaged file decrypts to unreadable, and so fails.
const encryptedFunctions = `if ! command -v openssl >/dev/null; then
	echo "encryptionSecretRef: the image of the database has no openssl" >&2
	exit 1
fi
crypt() { openssl enc "$1" -aes-256-cbc -pbkdf2 -iter 200000 -pass "file:` + keyPath + `/` + keyVolume + `"; }
dump() {
	: >"$1.failed"
	{ pg_dump --format=custom --no-owner --no-password && rm "$1.failed"; } | crypt -e >"$1"
	[ ! -e "$1.failed" ]
}
check() { crypt -d <"$1" >/dev/null && crypt -d <"$1" 2>/dev/null | pg_restore --list >/dev/null; }
load() { from="$1"; shift; crypt -d <"$from" | pg_restore --no-owner --exit-on-error --no-password "$@"; }
`

// dumpBody gives a dump its name once it is whole. The size, and what was verified, is the termination message.
const dumpBody = `tables=
trap 'rm -f "$file.partial" "$file.partial.failed"' EXIT
dump "$file.partial"
check "$file.partial"
`

const dumpEnd = `mv -f "$file.partial" "$file"
{ wc -c <"$file"; echo $tables; } >/dev/termination-log || true
`

// verifyBody restores the dump into a scratch database, which is dropped even if that fails. No two dumps of a database run at a time.
const verifyBody = `scratch=` + scratchDatabase + `
drop() { dropdb --if-exists --no-password "$scratch"; }
trap 'drop || true; rm -f "$file.partial" "$file.partial.failed"' EXIT
drop
createdb --no-password --template=template0 "$scratch"
load "$file.partial" --dbname="$scratch"
tables=` + "`" + `psql --no-psqlrc --quiet --tuples-only --no-align --no-password --dbname="$scratch" --command="select count(*) from pg_catalog.pg_tables where schemaname not in ('pg_catalog', 'information_schema')"` + "`" + `
drop
`

// scratchDatabase is the database that dumps are restored into to verify them.
const scratchDatabase = "berth_verify"

// restoreBody restores all of a dump or nothing. --dbname is only there to have it connect: which database it is, is in PGDATABASE,
// where a name with "=" in it is a name.
const restoreBody = `if [ ! -f "$file" ]; then
	echo "there is no $file in the claim ` + BackupsClaim + `" >&2
	exit 1
fi
load "$file" --clean --if-exists --single-transaction --dbname="application_name=$PGAPPNAME"
`

const deleteScript = scriptHead + `rm -f "$file" "$file.partial" "$file.partial.failed"
`

func dumpScript(encrypted, verify bool) string {
	script := scriptHead + functions(encrypted) + dumpBody
	if verify {
		script += verifyBody
	}
	return script + dumpEnd
}

func restoreScript(encrypted bool) string { return scriptHead + functions(encrypted) + restoreBody }

func functions(encrypted bool) string {
	if encrypted {
		return encryptedFunctions
	}
	return plainFunctions
}
