// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/split"
)

const (
	webReplicas = 20
	dbReplicas  = 4
)

// group is a workload with a mix, with its replicas outside of act 2 and act 5.
type group struct {
	app      string
	mix      split.Mix
	replicas int
}

func (d *demo) groups() []group {
	return []group{{web, d.web, webReplicas}, {db, d.db, dbReplicas}}
}

// table prints all nodes and pods, and a legend.
func (d *demo) table(pic picture) {
	for _, l := range d.nodeTable(pic) {
		d.line("  %s", l)
	}
	d.line("  %s", d.paint(faint, legend(pic)))
}

// exactly checks a group and prints its summary.
func (d *demo) exactly(app string, m split.Mix, n int, pods []pod) {
	ok := d.results.add(exact(app, m, n, pods))
	d.line("  %s", d.summary(app, m, pods, d.verdict(ok, "exact")))
}

// place: act 1.
func (d *demo) place(ctx context.Context) error {
	d.title("Act 1: a mix, and the pods that follow it")
	d.say("6 spot and 4 on-demand nodes with capacity for 4 pods each. A CapacityMix governs web, annotations define the mix of db.")
	if err := d.apply(ctx, "web.yaml", "db.yaml"); err != nil {
		return err
	}
	var err error
	if d.web, err = d.mixOf(ctx, web, nil); err != nil {
		return err
	}
	if d.db, err = d.mixOf(ctx, db, &appsv1.StatefulSet{}); err != nil {
		return err
	}
	d.command("kubectl apply -f manifests/samples/web.yaml -f manifests/samples/db.yaml")
	d.line("      CapacityMix web    spotPercent: %d   minOnDemand: %d", d.web.SpotPercent, d.web.MinOnDemand)
	d.line(
		"      StatefulSet db     %s: \"%d\"   %s: \"%d\"", v1alpha1.SpotPercentAnnotation, d.db.SpotPercent,
		v1alpha1.MinOnDemandAnnotation, d.db.MinOnDemand,
	)
	d.gap()
	first, err := d.untilBound(ctx, web, webReplicas)
	if err != nil {
		return err
	}
	pic, err := d.allReady(ctx)
	if err != nil {
		return err
	}
	d.table(pic)
	d.gap()
	d.exactly(web, d.web, webReplicas, first.of(web))
	d.exactly(db, d.db, dbReplicas, pic.of(db))
	d.gap()
	p := pic.of(web)[2]
	d.say("A pod gets its slot in the same request as its node, as annotations. A restarted scheduler reads them, and a scale-down "+
		"removes the highest slots first. For example, on %s:", p.name)
	shown := func(key string) string { return fmt.Sprintf("%s: %q", key, p.annotations[key]) }
	d.line("      %s%s", pad(shown(v1alpha1.SlotAnnotation), 36), shown(v1alpha1.PodDeletionCostAnnotation))
	d.line("      %s%s", pad(shown(v1alpha1.MixAnnotation), 36), shown(v1alpha1.CapacityTypeAnnotation))
	return nil
}

// allReady waits until web and db have all their pods, all Ready.
func (d *demo) allReady(ctx context.Context) (picture, error) {
	if _, err := d.untilReady(ctx, db, dbReplicas); err != nil {
		return picture{}, err
	}
	return d.untilReady(ctx, web, webReplicas)
}

// resize: act 2.
func (d *demo) resize(ctx context.Context) error {
	d.title("Act 2: scaling up and down")
	d.say("Each slot has one fixed type, and the first n slots are the exact mix of n, for every n. So a scale-up moves no pod, and " +
		"a scale-down, from the highest slot down, requires no eviction. The counts are taken once all pods have a node. Each " +
		"letter is a slot: S runs on spot, o on on-demand.")
	d.gap()
	d.command("kubectl scale deployment web --replicas=...")
	d.gap()
	row := func(replicas, spot, onDemand, slots, rule, verdict string) {
		d.line("  %s%s%s%s%s%s", pad(replicas, 11), pad(spot, 6), pad(onDemand, 11), slots, pad(rule, 31), verdict)
	}
	d.line(
		"  %s",
		d.paint(faint, pad("replicas", 11)+pad("spot", 6)+pad("on-demand", 11)+pad("slots 0, 1, 2, ...", slotsColumn)+"rule for spot"),
	)
	size := webReplicas
	for _, n := range []int{30, 12, 5, 1, webReplicas} {
		if err := d.scale(ctx, web, n); err != nil {
			return err
		}
		pic, err := d.untilBound(ctx, web, n)
		if err != nil {
			return err
		}
		pods := pic.of(web)
		c, _ := count(pods)
		ok := d.results.add(exact(web, d.web, n, pods))
		row(fmt.Sprintf("%2d -> %d", size, n), fmt.Sprint(c.Spot), fmt.Sprint(c.OnDemand),
			d.strip(pods)+strings.Repeat(" ", max(1, slotsColumn-len(pods))), ruleText(d.web, n), d.verdict(ok, "exact"))
		// The ReplicaSet removes pods that are not Ready first, whatever their slots.
		if _, err := d.untilReady(ctx, web, n); err != nil {
			return err
		}
		size = n
	}
	return nil
}

// slotsColumn is the width of the slots in act 2, which has at most 30.
const slotsColumn = 32

// roll: act 3.
func (d *demo) roll(ctx context.Context) error {
	d.title("Act 3: a rolling update")
	d.say("The pods of the new revision are a separate group, with slots from 0. It is exact once the rollout is complete.")
	d.gap()
	before, err := d.look(ctx)
	if err != nil {
		return err
	}
	old := before.of(web)[0].revision
	began := time.Now()
	if err := d.patch(ctx, web, `{"spec":{"template":{"spec":{"containers":[{"name":"web","image":"nginx:1.29"}]}}}}`); err != nil {
		return err
	}
	d.command("kubectl set image deployment/web web=nginx:1.29")
	d.gap()
	pic, seen, err := d.watchRollout(ctx, old)
	if err != nil {
		return err
	}
	took := time.Since(began)
	d.line("  %s", d.paint(faint, pad("", 14)+pad("old revision", 36)+"new revision"))
	for _, m := range spread(seen, rolloutLines) {
		d.line("  %s%s%s", pad(fmt.Sprintf("after %.1f s", m.after.Seconds()), 14), pad(m.of(m.old), 36), m.of(m.new))
	}
	d.gap()
	d.exactly(web, d.web, webReplicas, pic.of(web))
	d.exactly(db, d.db, dbReplicas, pic.of(db))
	d.gap()
	d.say("It took %.1f seconds, because simulated containers start immediately.", took.Seconds())
	return nil
}

// rolloutLines is the number of moments of a rollout that are shown.
const rolloutLines = 7

// moment is the progress of a rollout.
type moment struct {
	after    time.Duration
	old, new split.Count
	waits    int // pods without a node
}

// of describes a revision at this moment.
func (m *moment) of(c split.Count) string {
	return fmt.Sprintf("%2d pods: %2d spot / %2d on-demand", c.Total(), c.Spot, c.OnDemand)
}

// watchRollout waits until a rollout of web is complete and returns its progress.
func (d *demo) watchRollout(ctx context.Context, old string) (picture, []moment, error) {
	began := time.Now()
	var seen []moment
	_, err := d.until(ctx, "no pod of the old revision exists, and all pods of the new one do", func(pic picture) (bool, string) {
		m := momentOf(pic.of(web), old)
		m.after = time.Since(began)
		if len(seen) == 0 || seen[len(seen)-1].old != m.old || seen[len(seen)-1].new != m.new {
			seen = append(seen, m)
		}
		return m.old.Total() == 0 && m.new.Total() == webReplicas && m.waits == 0, m.of(m.old) + " old, " + m.of(m.new) + " new"
	})
	if err != nil {
		return picture{}, nil, err
	}
	pic, err := d.allReady(ctx)
	return pic, seen, err
}

func momentOf(pods []pod, old string) (m moment) {
	var before, after []pod
	for _, p := range pods {
		if p.revision == old {
			before = append(before, p)
		} else {
			after = append(after, p)
		}
	}
	var a, b int
	m.old, a = count(before)
	m.new, b = count(after)
	m.waits = a + b
	return m
}

// spread returns n of many, including the first and the last.
func spread[T any](all []T, n int) []T {
	if len(all) <= n {
		return all
	}
	some := make([]T, n)
	for i := range some {
		some[i] = all[i*(len(all)-1)/(n-1)]
	}
	return some
}
