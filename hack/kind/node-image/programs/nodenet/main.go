// SPDX-License-Identifier: Apache-2.0

// Command nodenet is a small pod network for kind nodes that share one network
// segment. On every node it
//
//   - writes a CNI configuration (ptp + host-local + portmap) for the node's
//     own pod range,
//   - keeps one route to every other node's pod range through that node's
//     address,
//   - masquerades what pods send outside the pod subnet.
//
// It does IPv4 only, and no network policies.
//
// It runs with the node's network and with the node's root at /host.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

const (
	hostRoot = "/host"
	cniDir   = hostRoot + "/etc/cni/net.d"
	cniFile  = "10-nodenet.conflist"

	// routeProtocol marks the routes that are ours.
	routeProtocol = netlink.RouteProtocol(0x4e)
)

func main() {
	log.SetFlags(log.LstdFlags)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Getenv("NODE_NAME"), os.Getenv("POD_SUBNET"), os.Getenv("CONTROL_PLANE_ENDPOINT")); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, self, podSubnet, endpoint string) error {
	_, subnet, err := net.ParseCIDR(podSubnet)
	if err != nil {
		return fmt.Errorf("POD_SUBNET: %w", err)
	}
	config, err := rest.InClusterConfig()
	if err != nil {
		return err
	}
	if endpoint != "" {
		// The service address works only once kube-proxy is up.
		config.Host = "https://" + endpoint
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	nodes := factory.Core().V1().Nodes()
	changed := make(chan struct{}, 1)
	poke := func(any) {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	if _, err := nodes.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: poke, DeleteFunc: poke,
		UpdateFunc: func(a, b any) {
			// Heartbeats change only the status' conditions.
			o, n := a.(*corev1.Node), b.(*corev1.Node)
			if o.Spec.PodCIDR != n.Spec.PodCIDR || internalIP(o) != internalIP(n) {
				poke(nil)
			}
		},
	}); err != nil {
		return err
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())

	tick := time.NewTicker(30 * time.Second)
	defer tick.Stop()
	last := ""
	for {
		list, err := nodes.Lister().List(labels.Everything())
		if err == nil {
			err = apply(list, self, subnet)
		}
		// Print a failure once, not at each attempt.
		if err != nil && err.Error() != last {
			log.Print(err)
			last = err.Error()
		} else if err == nil && last != "done" {
			log.Printf("network of %s is up, %d nodes", self, len(list))
			last = "done"
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-tick.C:
		}
	}
}

func internalIP(n *corev1.Node) string {
	for _, a := range n.Status.Addresses {
		if a.Type == corev1.NodeInternalIP && net.ParseIP(a.Address).To4() != nil {
			return a.Address
		}
	}
	return ""
}

func apply(list []*corev1.Node, self string, subnet *net.IPNet) error {
	if err := masquerade(subnet.String()); err != nil {
		return err
	}
	want := map[string]net.IP{}
	own := ""
	for _, n := range list {
		if n.Spec.PodCIDR == "" {
			continue
		}
		if n.Name == self {
			own = n.Spec.PodCIDR
			continue
		}
		if ip := internalIP(n); ip != "" {
			want[n.Spec.PodCIDR] = net.ParseIP(ip)
		}
	}
	if err := routes(want); err != nil {
		return err
	}
	if own == "" {
		return fmt.Errorf("node %q has no pod range yet", self)
	}
	return writeCNI(own)
}

func routes(want map[string]net.IP) error {
	have, err := netlink.RouteListFiltered(netlink.FAMILY_V4,
		&netlink.Route{Protocol: routeProtocol}, netlink.RT_FILTER_PROTOCOL)
	if err != nil {
		return err
	}
	for i := range have {
		if have[i].Dst == nil {
			continue
		}
		if gw, ok := want[have[i].Dst.String()]; !ok || !gw.Equal(have[i].Gw) {
			if err := netlink.RouteDel(&have[i]); err != nil {
				return fmt.Errorf("remove route to %v: %w", have[i].Dst, err)
			}
		}
	}
	for cidr, gw := range want {
		_, dst, err := net.ParseCIDR(cidr)
		if err != nil {
			return err
		}
		if err := netlink.RouteReplace(&netlink.Route{Dst: dst, Gw: gw, Protocol: routeProtocol}); err != nil {
			return fmt.Errorf("route to %s through %s: %w", cidr, gw, err)
		}
	}
	return nil
}

func writeCNI(podCIDR string) error {
	content, err := json.MarshalIndent(map[string]any{
		"cniVersion": "1.0.0",
		"name":       "nodenet",
		"plugins": []any{
			map[string]any{
				"type":   "ptp",
				"ipMasq": false,
				"ipam": map[string]any{
					"type":    "host-local",
					"dataDir": "/run/cni-ipam-state",
					"routes":  []any{map[string]string{"dst": "0.0.0.0/0"}},
					"ranges":  []any{[]any{map[string]string{"subnet": podCIDR}}},
				},
			},
			map[string]any{"type": "portmap", "capabilities": map[string]bool{"portMappings": true}},
		},
	}, "", "  ")
	if err != nil {
		return err
	}
	path := filepath.Join(cniDir, cniFile)
	if old, err := os.ReadFile(path); err == nil && string(old) == string(content) {
		return nil
	}
	if err := os.MkdirAll(cniDir, 0o755); err != nil {
		return err
	}
	tmp := filepath.Join(cniDir, "."+cniFile)
	if err := os.WriteFile(tmp, content, 0o644); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}

// masquerade uses the node's own iptables, so that the rule is of the flavour
// that the node uses.
func masquerade(subnet string) error {
	rule := []string{
		"POSTROUTING", "-s", subnet, "!", "-d", subnet,
		"-m", "addrtype", "!", "--dst-type", "LOCAL",
		"-m", "comment", "--comment", "nodenet: pods to the outside", "-j", "MASQUERADE",
	}
	if iptables(append([]string{"-C"}, rule...)) == nil {
		return nil
	}
	return iptables(append([]string{"-A"}, rule...))
}

func iptables(args []string) error {
	cmd := exec.Command("/usr/sbin/iptables", append([]string{"-w", "10", "-t", "nat"}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: hostRoot}
	cmd.Dir = "/"
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("iptables %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}
