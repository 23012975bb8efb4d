// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/test/builders"
)

// drainHalf: act 4.
func (d *demo) drainHalf(ctx context.Context) error {
	d.title("Act 4: half of the spot nodes are drained")
	d.say("The replacement of an evicted pod gets its slot, which is a spot slot, and so runs on spot. Only if no spot node has " +
		"free capacity does it run on on-demand (whenSpotUnavailable: OnDemand).")
	pic, err := d.look(ctx)
	if err != nil {
		return err
	}
	var spot []string
	for _, n := range pic.nodes {
		if n.is == capacity.Spot {
			spot = append(spot, n.name)
		}
	}
	drained := spot[len(spot)/2:]
	d.line("  %s", d.paint(faint, pad("", 24)+drainRow("evicted", "to spot", "borrowed", "spot capacity", "spot slots")))
	for _, name := range drained {
		if pic, err = d.drainOne(ctx, pic, name); err != nil {
			return err
		}
	}
	d.gap()
	d.table(pic)
	d.drained = drained
	return d.explainBorrowed(ctx, pic)
}

// drainOne drains a node, waits for the replacements and prints where they run.
func (d *demo) drainOne(ctx context.Context, before picture, name string) (picture, error) {
	evicted, err := d.drain(ctx, name)
	if err != nil {
		return picture{}, err
	}
	_, err = d.until(ctx, "the evicted pods are gone", func(pic picture) (bool, string) {
		left := slices.ContainsFunc(pic.pods, func(p pod) bool {
			return slices.ContainsFunc(evicted, func(e pod) bool { return e.uid == p.uid })
		})
		return !left, "some still exist"
	})
	if err != nil {
		return picture{}, err
	}
	pic, err := d.allReady(ctx)
	if err != nil {
		return picture{}, err
	}
	was, _ := d.borrowing(before)
	now, differs := d.borrowing(pic)
	ok := d.results.add(append(differs, borrowedBecauseFull(now, d.wantSpot(), pic)...))
	podCapacity, _ := pic.capacities(capacity.Spot)
	numbers := drainRow(len(evicted), len(evicted)-(now-was), now-was, podCapacity, d.wantSpot())
	d.line("  %s %s%s%s", d.paint(faint, "$"), d.paint(bold, pad("kubectl drain "+name, 22)), numbers, d.verdict(ok, "ok"))
	return pic, nil
}

func drainRow(evicted, toSpot, borrow, podCapacity, slots any) string {
	return fmt.Sprintf("%-9v%-9v%-10v%-15v%-12v", evicted, toSpot, borrow, podCapacity, slots)
}

// wantSpot is the number of spot slots of web and db.
func (d *demo) wantSpot() int { return d.web.Spot(webReplicas) + d.db.Spot(dbReplicas) }

// borrowing returns the number of spot slots that run on on-demand, and other differences from the mix.
func (d *demo) borrowing(pic picture) (int, []string) {
	n := 0
	var differs []string
	for _, g := range d.groups() {
		borrowing, more := borrowedOnly(g.app, g.mix, g.replicas, pic.of(g.app))
		n, differs = n+borrowing, append(differs, more...)
	}
	return n, differs
}

// explainBorrowed prints which pods are borrowed, and the event of one of them.
func (d *demo) explainBorrowed(ctx context.Context, pic picture) error {
	shown := false
	for _, g := range d.groups() {
		pods := pic.of(g.app)
		borrowers := slices.DeleteFunc(slices.Clone(pods), func(p pod) bool { return !p.borrows() })
		verdict := d.paint(green, "exact")
		if len(borrowers) > 0 {
			verdict = d.paint(borrowed, fmt.Sprintf("%d borrowed", len(borrowers)))
		}
		d.line("  %s", d.summary(g.app, g.mix, pods, verdict))
		for i := range borrowers {
			text, err := d.eventOf(ctx, &borrowers[i], v1alpha1.EventReasonBorrowed)
			if err != nil {
				return err
			}
			if !shown {
				defer d.quote("%s: %s", v1alpha1.EventReasonBorrowed, text)
				shown = true
			}
		}
	}
	return nil
}

// report is another team's workload, which selects on-demand nodes itself.
const report = "report"

// noCapacity: act 6.
func (d *demo) noCapacity(ctx context.Context) error {
	const grown = 30
	d.title("Act 6: no free capacity on on-demand")
	pic, err := d.look(ctx)
	if err != nil {
		return err
	}
	_, free := pic.capacities(capacity.OnDemand)
	if err := d.client.Create(ctx, pinned(free)); err != nil {
		return fmt.Errorf("create deployment %s: %w", report, err)
	}
	if _, err := d.untilBound(ctx, report, free); err != nil {
		return err
	}
	d.say("Another team's Deployment, report, fills the on-demand nodes by its nodeSelector. Then web is scaled up. Its on-demand " +
		"slots are pending (whenOnDemandUnavailable: Wait), the spot slots after them are not.")
	d.command("kubectl scale deployment report --replicas=%d", free)
	if err := d.scale(ctx, web, grown); err != nil {
		return err
	}
	d.command("kubectl scale deployment web --replicas=%d", grown)
	d.gap()
	wait := slotsOf(d.web, capacity.OnDemand, webReplicas, grown)
	pic, err = d.until(ctx, "only on-demand slots of web are pending", func(pic picture) (bool, string) {
		pods := pic.of(web)
		c, pending := count(pods)
		return len(pods) == grown && pending == len(wait) && len(waiting(pods)) == pending, fmt.Sprintf(
			"%d pods of web: %s, %d without a node", len(pods), countText(c), pending,
		)
	})
	if err != nil {
		return err
	}
	d.table(pic)
	pods := pic.of(web)
	ok := d.results.add(onlyOnDemandWaits(web, d.web, grown, wait, pods))
	d.line("  %s", d.summary(web, d.web, pods, d.verdict(ok, fmt.Sprintf("%d pending", len(wait)))))
	for _, p := range waiting(pods)[:1] {
		text, err := d.eventOf(ctx, &p, "FailedScheduling")
		if err != nil {
			return err
		}
		d.quote("FailedScheduling: %s", aboutNodes(text))
	}
	return d.nodeComes(ctx, wait, grown)
}

// pinned returns a Deployment that fills the on-demand nodes.
func pinned(replicas int) *appsv1.Deployment {
	d := builders.Deployment(
		report, int32(replicas), builders.CPU("500m"),
		builders.OnNodesWith(cluster.CapacityTypeLabel, capacity.OnDemand.String()),
	)
	d.Namespace = namespace
	return d
}

// nodeComes adds an on-demand node and measures the time until the pending pods are scheduled.
func (d *demo) nodeComes(ctx context.Context, waited []int, n int) error {
	spec := nodeSpecs(capacity.OnDemand.String(), 5)[4]
	began := time.Now()
	var ready, placed time.Duration
	var pic picture
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return d.cluster.AddNodes(gctx, spec) })
	g.Go(func() (err error) {
		pic, err = d.until(gctx, "the pending pods run on the new node", func(pic picture) (bool, string) {
			if ready == 0 && slices.ContainsFunc(pic.nodes, func(n node) bool { return n.name == spec.Name && n.accepts }) {
				ready = time.Since(began)
			}
			placed = time.Since(began)
			return bound(web, n)(pic)
		})
		return err
	})
	if err := g.Wait(); err != nil {
		return err
	}
	d.gap()
	d.say("A new on-demand node joins, %s. It is Ready within %s, and slots %s are scheduled within %s.",
		spec.Name, tenths(ready), numbers(waited), tenths(placed))
	d.exactly(web, d.web, n, pic.of(web))
	return nil
}

// tenths rounds up: 130 ms is within 0.2 s.
func tenths(d time.Duration) string {
	return fmt.Sprintf("%.1f s", math.Ceil(d.Seconds()*10)/10)
}
