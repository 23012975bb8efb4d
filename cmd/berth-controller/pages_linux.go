// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// madvPageout is MADV_PAGEOUT of Linux 5.4, which package syscall does not have.
const madvPageout = 21

// releasePages returns the pages of the program's own file that are in memory. The kernel reads those again that are used: a third of
// those that are in memory after the start is not. Without it, they count as memory of the container as long as the
// program runs. Where it is not possible, nothing changes.
func releasePages() {
	program, err := os.Executable()
	if err != nil {
		return
	}
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return
	}
	defer maps.Close()
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		if begin, end, ok := readOnlyPages(lines.Text(), program); ok {
			_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, begin, end-begin, madvPageout)
		}
	}
}

// readOnlyPages returns the addresses of a line of /proc/PID/maps, false if it is not of pages of a file that the program cannot write.
func readOnlyPages(line, file string) (begin, end uintptr, ok bool) {
	f := strings.Fields(line) // 00400000-01bba000 r-xp 00000000 fe:00 10666930 /berth-controller
	if len(f) < 6 || f[5] != file || !strings.HasPrefix(f[1], "r-") {
		return 0, 0, false
	}
	from, to, _ := strings.Cut(f[0], "-")
	b, errBegin := strconv.ParseUint(from, 16, 64)
	e, errEnd := strconv.ParseUint(to, 16, 64)
	return uintptr(b), uintptr(e), errBegin == nil && errEnd == nil && b < e
}
