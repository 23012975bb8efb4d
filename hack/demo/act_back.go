// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/cli"
)

// comeBack: act 5.
func (d *demo) comeBack(ctx context.Context) error {
	d.title("Act 5: spot is available again")
	before, err := d.look(ctx)
	if err != nil {
		return err
	}
	away, _ := d.borrowing(before)
	d.say("%d replicas run on the wrong capacity type, and spot has no free capacity for them. The controller does not evict them "+
		"now, because their replacements would not run on spot either:", away)
	if err := d.untilStatus(ctx, "InsufficientCapacity"); err != nil {
		return err
	}
	if err := d.berth(ctx, "status", web); err != nil {
		return err
	}
	d.results.add(d.evictionsAre(0, "while spot had no free capacity"))
	began := time.Now()
	for _, name := range d.drained {
		if err := d.cordon(ctx, name, false); err != nil {
			return err
		}
	}
	d.gap()
	d.command("kubectl uncordon %s", strings.Join(d.drained, " "))
	_, err = d.until(ctx, "no pod is borrowed", func(pic picture) (bool, string) {
		n, differs := d.borrowing(pic)
		return n == 0 && len(differs) == 0, fmt.Sprintf("%d borrowed; %s", n, strings.Join(differs, "; "))
	})
	if err != nil {
		return err
	}
	pic, err := d.allReady(ctx)
	if err != nil {
		return err
	}
	d.say(
		"One replica at a time, each once the previous one is Ready: %d evictions in %s, no more than necessary.", away,
		tenths(time.Since(began)),
	)
	d.results.add(d.evictionsAre(away, "until the mix was satisfied"))
	for _, g := range d.groups() {
		d.exactly(g.app, g.mix, g.replicas, pic.of(g.app))
	}
	d.gap()
	moved := slices.IndexFunc(pic.of(web), func(p pod) bool {
		return !slices.ContainsFunc(before.of(web), func(b pod) bool { return b.uid == p.uid })
	})
	if moved < 0 {
		return nil
	}
	return d.berth(ctx, "explain", pic.of(web)[moved].name)
}

// untilStatus waits until the status has the reason why no replica of web is moved.
func (d *demo) untilStatus(ctx context.Context, reason string) error {
	_, err := d.until(ctx, "the status of CapacityMix web has the reason "+reason, func(picture) (bool, string) {
		cm, err := d.capacityMix(ctx, web)
		if err != nil {
			return false, err.Error()
		}
		for _, w := range cm.Status.Workloads {
			if w.Blocked != nil && w.Blocked.Reason == reason {
				return true, ""
			}
		}
		return false, fmt.Sprintf("%+v", cm.Status.Conditions)
	})
	return err
}

// berth runs `kubectl berth` and prints its output.
func (d *demo) berth(ctx context.Context, args ...string) error {
	out, err := d.berthOutput(ctx, args...)
	d.outputs(out)
	return err
}

// berthOutput runs `kubectl berth` and returns its output.
func (d *demo) berthOutput(ctx context.Context, args ...string) (string, error) {
	var out, problems bytes.Buffer
	c := cli.New(genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &out, ErrOut: &problems})
	c.SetArgs(append([]string{"--kubeconfig", d.cluster.KubeconfigPath()}, args...))
	d.command("kubectl berth %s", strings.Join(args, " "))
	if err := c.ExecuteContext(ctx); err != nil {
		return "", fmt.Errorf("kubectl berth %s: %w: %s", strings.Join(args, " "), err, problems.String())
	}
	return out.String(), nil
}

// evictionsAre checks how many pods the controller has evicted since the start, by the audit log.
func (d *demo) evictionsAre(want int, when string) []string {
	n := 0
	_, err := d.cluster.ReadAuditLog(func(e *cluster.AuditEvent) bool {
		if e.Stage == "ResponseComplete" && e.User.Username == cluster.BerthControllerUser && e.ObjectRef.Subresource == "eviction" {
			n++
		}
		return false
	})
	switch {
	case err != nil:
		return []string{err.Error()}
	case n != want:
		return []string{fmt.Sprintf("the controller evicted %d pods %s instead of %d", n, when, want)}
	}
	return nil
}
