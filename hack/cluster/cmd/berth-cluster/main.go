// SPDX-License-Identifier: Apache-2.0

// Command berth-cluster starts and stops a local cluster with Berth that stays: `make cluster-up`, `make cluster-down`. It also
// builds the kubectl, the helm and the kind that the tests use, and the scheduler with the plugins of scheduler-plugins, and packs
// a prebuilt control plane.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"berth.dev/berth/hack/cluster"
)

const usage = `usage: berth-cluster up [--spot N] [--on-demand N] [--cpu CPUS] [--pods N] [--features LIST]
       berth-cluster down
       berth-cluster build
       berth-cluster path kubectl|helm|kind|berth-scheduler-gangs
       berth-cluster modfile FOLDER
       berth-cluster pack FOLDER
       berth-cluster pool [--size N] COMMAND [ARGUMENT ...]
`

// programs are the commands about programs. They start no cluster.
var programs = map[string]func(ctx context.Context, args []string, out io.Writer) error{
	"build": build, "path": path, "modfile": modfile, "pack": pack,
}

func main() {
	log.SetLogger(klog.Background()) // else controller-runtime prints a stack after 30 seconds
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "berth-cluster:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 {
		return fmt.Errorf("missing command\n%s", usage)
	}
	if command := programs[args[0]]; command != nil {
		return command(ctx, args[1:], out)
	}
	switch args[0] {
	case "help", "-h", "--help":
		_, err := fmt.Fprint(out, usage)
		return err
	}
	root, err := cluster.RepoRoot()
	if err != nil {
		return err
	}
	if args[0] == "pool" {
		return pool(ctx, root, args[1:], out)
	}
	l := local{root: root, dir: filepath.Join(root, ".cluster"), out: out, serve: documented}
	// One command at a time. The lock is not in the directory, which both remove.
	unlock, err := cluster.Lock(ctx, l.dir)
	if err != nil {
		return err
	}
	defer unlock()
	switch args[0] {
	case "up":
		var size size
		flags := flag.NewFlagSet("up", flag.ContinueOnError)
		flags.IntVar(&size.spot, "spot", 6, "number of spot nodes")
		flags.IntVar(&size.onDemand, "on-demand", 4, "number of on-demand nodes")
		flags.StringVar(&size.cpu, "cpu", "", "CPUs of a node (default 16)")
		flags.IntVar(&size.pods, "pods", 0, "pods a node takes (default 110)")
		chosen := flags.String("features", strings.Join(cluster.AllFeatures(), ","), "features beside the mix; none is the mix alone")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		if size.features, err = parseFeatures(*chosen); err != nil {
			return err
		}
		return l.up(ctx, size)
	case "down":
		return l.down()
	default:
		return fmt.Errorf("unknown command %q\n%s", args[0], usage)
	}
}

// modfile prints where the go.mod file is that a module which requires scheduler-plugins is built with.
func modfile(ctx context.Context, args []string, out io.Writer) error {
	if len(args) != 1 {
		return fmt.Errorf("modfile needs the folder of a module\n%s", usage)
	}
	return printOf(out, func(root string) (string, error) { return cluster.Modfile(ctx, root, args[0]) })
}

// build builds what nearly all suites start.
func build(ctx context.Context, args []string, _ io.Writer) error {
	if len(args) != 0 {
		return fmt.Errorf("build has no arguments, not %q\n%s", args, usage)
	}
	root, err := cluster.RepoRoot()
	if err != nil {
		return err
	}
	_, err = buildPrograms(ctx, root)
	return err
}

// pack writes the programs of a control plane to an archive, which make demo unpacks where it is in the repository.
func pack(ctx context.Context, args []string, out io.Writer) error {
	if len(args) != 1 {
		return fmt.Errorf("pack needs the folder of the archive\n%s", usage)
	}
	archive := filepath.Join(args[0], cluster.PrebuiltName())
	if err := cluster.Pack(ctx, os.Stderr, archive); err != nil {
		return err
	}
	_, err := fmt.Fprintln(out, archive)
	return err
}

// printOf prints a path that depends on the repository.
func printOf(out io.Writer, get func(root string) (string, error)) error {
	root, err := cluster.RepoRoot()
	if err != nil {
		return err
	}
	file, err := get(root)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, file)
	return err
}

// path prints where a tool is, and builds it first if need be.
func path(ctx context.Context, args []string, out io.Writer) error {
	tools := []string{cluster.Kubectl, cluster.Helm, cluster.Kind, cluster.Gangs}
	if len(args) != 1 || !slices.Contains(tools, args[0]) {
		return fmt.Errorf("path needs one of %s\n%s", strings.Join(tools, ", "), usage)
	}
	if args[0] == cluster.Gangs {
		return printOf(out, func(root string) (string, error) { return cluster.BuildGangs(ctx, root, os.Stderr, false) })
	}
	file, err := cluster.Binary(ctx, os.Stderr, args[0])
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, file)
	return err
}
