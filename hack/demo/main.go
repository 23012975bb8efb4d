// SPDX-License-Identifier: Apache-2.0

// Command demo shows what Berth does on a real control plane, which it starts itself: `make demo`. Every number that it
// prints is counted from the API server and checked. It fails if one differs.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/split"
)

// demo is one run.
type demo struct {
	*screen
	root       string
	keep       bool
	acts       []string // a part of allActs
	profile    string   // the scheduler's configuration; empty: the shipped one
	pause      func(context.Context) error
	paused     time.Duration
	cluster    *cluster.Cluster
	kube       kubernetes.Interface
	client     client.Client
	classifier *capacity.Classifier
	results    results
	web, db    split.Mix // from the API server, from act 1 on
	drained    []string  // the nodes of act 4
	large      bool      // the nodes of onLargeNodes exist
	serve      cluster.ServiceAddresses
}

// errDiffers is the error of a run in which a check failed.
var errDiffers = errors.New("some checks failed")

func main() {
	keep := flag.Bool("keep", false, "leave the cluster running at the end, and print how to connect to it and stop it")
	pause := flag.Bool("pause", false, "wait for Enter after each act")
	acts := flag.String("acts", strings.Join(allActs, ","), "the parts of the demo that run")
	record := flag.String("record", "", "write a recording of the demo to this SVG file")
	noColour := flag.Bool("no-color", false, "disable colors (also: NO_COLOR=1)")
	flag.Parse()
	chosen, err := parseActs(*acts)
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo: "+err.Error())
		os.Exit(2)
	}
	silence()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	d := newDemo(newScreen(os.Stdout, *noColour))
	d.keep, d.acts = *keep, chosen
	recorded := d.record(*record)
	if *pause {
		d.pause = d.enter(os.Stdin)
	}
	if err = d.run(ctx); err == nil {
		err = recorded()
	}
	interrupted := ctx.Err() != nil
	stop()
	switch {
	case interrupted:
		d.line("\nStopped. Everything is cleaned up.")
		os.Exit(130)
	case err != nil:
		fmt.Fprintln(os.Stderr, d.paint(red, "demo: "+err.Error()))
		os.Exit(1)
	}
}

func newDemo(s *screen) *demo {
	return &demo{screen: s, acts: allActs, pause: func(context.Context) error { return nil }}
}

// silence discards the logs of client libraries.
func silence() {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	log.SetLogger(klog.Background())
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
}

// enter waits for the Enter key, or for the end of the input.
func (d *demo) enter(in io.Reader) func(context.Context) error {
	lines := bufio.NewReader(in)
	return func(ctx context.Context) error {
		fmt.Fprint(d.out, d.paint(faint, "\n  Press Enter to continue … "))
		pressed := make(chan struct{})
		go func() {
			_, _ = lines.ReadString('\n')
			close(pressed)
		}()
		began := time.Now()
		defer func() { d.paused += time.Since(began) }()
		select {
		case <-pressed:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// run starts the cluster, runs the acts and cleans up.
func (d *demo) run(ctx context.Context) (err error) {
	programs, err := d.build(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	stop, err := d.launch(ctx, programs)
	defer func() {
		// A cluster whose checks failed is kept too.
		if d.keep && (err == nil || errors.Is(err, errDiffers)) {
			d.kept()
		} else {
			stop()
		}
	}()
	if err != nil {
		return err
	}
	for _, act := range d.steps() {
		if err := d.pause(ctx); err != nil {
			return err
		}
		if err := act(ctx); err != nil {
			return err
		}
	}
	return d.end(time.Since(began) - d.paused)
}

// end prints the result.
func (d *demo) end(took time.Duration) error {
	if n := len(d.results.differs); n > 0 {
		d.title("The end: some checks failed")
		d.say("%d checks passed. These failed:", d.results.passed)
		for _, what := range d.results.differs {
			d.line("    %s", d.paint(red, what))
		}
		return errDiffers
	}
	d.title("The end")
	d.say(
		"%s, none failed; %.0f seconds after the build.",
		d.paint(green, fmt.Sprintf("%d checks passed", d.results.passed)), took.Seconds(),
	)
	d.gap()
	d.say("Next steps:")
	for _, next := range [][2]string{
		{"make cluster-up", "start a cluster like this for kubectl"},
		{"kubectl apply -f manifests/samples/web.yaml", "place a workload there by its mix"},
		{"go run ./hack/demo --keep", "run this demo and keep its cluster"},
		{"less docs/node-types.md", "read which labels Berth uses on your provider"},
	} {
		d.offer(next[0], next[1])
	}
	return nil
}

// offer prints a command that the user can try.
func (d *demo) offer(command, what string) {
	d.line("    %s%s", d.paint(bold, pad(command, 50)), what)
}
