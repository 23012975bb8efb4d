// SPDX-License-Identifier: Apache-2.0

// Command proxystart is installed as /usr/local/bin/kube-proxy in the kube-proxy
// image. The image carries both iptables flavours; which one a node uses is
// seen from the rules already in its network namespace (kubelet and the
// container engine put some there), so this picks the flavour that holds more,
// links the iptables names to it and becomes the real kube-proxy.
package main

import (
	"bytes"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

const (
	sbin = "/usr/sbin"
	real = "/usr/local/bin/kube-proxy.real"
)

func rules(multi string) int {
	n := 0
	for _, save := range []string{"iptables-save", "ip6tables-save"} {
		out, err := exec.Command(filepath.Join(sbin, multi), save).Output()
		if err != nil {
			continue
		}
		n += bytes.Count(out, []byte("\n-"))
	}
	return n
}

func main() {
	multi := "xtables-legacy-multi"
	nft, legacy := rules("xtables-nft-multi"), rules("xtables-legacy-multi")
	if nft > legacy {
		multi = "xtables-nft-multi"
	}
	log.Printf("proxystart: %d nft rules, %d legacy rules: using %s", nft, legacy, multi)
	for _, name := range []string{"iptables", "iptables-save", "iptables-restore", "ip6tables", "ip6tables-save", "ip6tables-restore"} {
		path := filepath.Join(sbin, name)
		_ = os.Remove(path)
		if err := os.Symlink(multi, path); err != nil {
			log.Fatalf("proxystart: %v", err)
		}
	}
	log.Fatal(syscall.Exec(real, append([]string{"kube-proxy"}, os.Args[1:]...), os.Environ()))
}
