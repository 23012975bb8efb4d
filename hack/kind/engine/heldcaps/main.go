// SPDX-License-Identifier: Apache-2.0

// Command heldcaps is an OCI runtime for Docker that calls runc after taking
// out of the container's (or exec'd process's) configuration the capabilities
// that this machine's root does not have itself.
//
// `docker run --privileged` requests every capability of the kernel. On a
// machine whose root lacks one, runc then fails with "unable to apply caps:
// operation not permitted". This gives such a container what root has, and
// never more.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// names is in the kernel's order: the index is the capability's number.
var names = strings.Fields(`
CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP
LINUX_IMMUTABLE NET_BIND_SERVICE NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK
IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE SYS_PACCT SYS_ADMIN
SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE
AUDIT_CONTROL SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND
AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE`)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "heldcaps:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	runc, err := exec.LookPath("runc")
	if err != nil {
		return err
	}
	held, err := heldCapabilities()
	if err != nil {
		return err
	}
	if bundle := option(args, "--bundle", "-b"); bundle != "" {
		err = restrict(filepath.Join(bundle, "config.json"), held, "process")
	} else if process := option(args, "--process", "-p"); process != "" {
		err = restrict(process, held)
	}
	if err != nil {
		return err
	}
	return syscall.Exec(runc, append([]string{"runc"}, args...), os.Environ())
}

func option(args []string, names ...string) string {
	for i, a := range args {
		for _, n := range names {
			if a == n && i+1 < len(args) {
				return args[i+1]
			}
			if v, ok := strings.CutPrefix(a, n+"="); ok {
				return v
			}
		}
	}
	return ""
}

func heldCapabilities() (map[string]bool, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return nil, err
	}
	mask := ^uint64(0)
	for _, line := range strings.Split(string(status), "\n") {
		key, value, _ := strings.Cut(line, ":")
		if key != "CapBnd" && key != "CapPrm" {
			continue
		}
		v, err := strconv.ParseUint(strings.TrimSpace(value), 16, 64)
		if err != nil {
			return nil, err
		}
		mask &= v
	}
	held := map[string]bool{}
	for i, n := range names {
		held["CAP_"+n] = mask>>i&1 == 1
	}
	return held, nil
}

// restrict rewrites the capability lists in the JSON file, at the path of keys.
func restrict(file string, held map[string]bool, path ...string) error {
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var root map[string]any
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(&root); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	at := root
	for _, key := range append(path, "capabilities") {
		next, ok := at[key].(map[string]any)
		if !ok {
			return nil
		}
		at = next
	}
	changed := false
	for set, v := range at {
		list, ok := v.([]any)
		if !ok {
			continue
		}
		keep := []any{}
		for _, c := range list {
			name, _ := c.(string)
			if known, ok := held[name]; ok && !known {
				changed = true
				continue
			}
			keep = append(keep, c)
		}
		at[set] = keep
	}
	if !changed {
		return nil
	}
	out, err := json.Marshal(root)
	if err != nil {
		return err
	}
	return os.WriteFile(file, out, info.Mode().Perm())
}
