// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"
	"time"
)

// The programs of Berth.
const (
	SchedulerProgram  = "berth-scheduler"
	ControllerProgram = "berth-controller"
	ConsoleProgram    = "berth-console"
)

// ControlPlane returns the programs of a control plane with its nodes.
func ControlPlane() []string { return []string{Etcd, APIServer, ControllerManager, KWOK} }

// buildCosts are the processor times of a first build in this order, where the programs before have compiled most packages: rough ones,
// since estimates follow what the builds of the run have taken so far.
var buildCosts = map[string]time.Duration{
	Etcd: 100 * time.Second, APIServer: 330 * time.Second, ControllerManager: 110 * time.Second, KWOK: 60 * time.Second,
	SchedulerProgram: 90 * time.Second, ControllerProgram: 80 * time.Second, ConsoleProgram: 30 * time.Second,
}

// Build builds programs, commands of Binary and those of Berth, one after the other, and returns their paths by name. The lines of progress
// have the place of a program among those that no earlier run has built, and an estimate of the time until the last of them is.
func Build(ctx context.Context, repoRoot string, out io.Writer, race bool, names ...string) (map[string]string, error) {
	missing, err := missingPrograms(repoRoot, race, names)
	if err != nil {
		return nil, err
	}
	pending := estimate{missing: missing}
	if left := pending.left(); left > time.Minute {
		fmt.Fprintf(out, "Programs to build from source, once: %d. This takes %s.\n", len(missing), roughly(left))
	}
	paths := make(map[string]string, len(names))
	for _, name := range names {
		began := time.Now()
		done := reportProgress(out, pending.step(name), pending.leftAt(name))
		paths[name], err = buildOne(ctx, repoRoot, race, name)
		done(err)
		if err != nil {
			return nil, err
		}
		pending.end(name, time.Since(began))
	}
	return paths, nil
}

func buildOne(ctx context.Context, repoRoot string, race bool, name string) (string, error) {
	if _, ok := sources[name]; ok {
		return Binary(ctx, io.Discard, name)
	}
	return buildCommand(ctx, repoRoot, io.Discard, name, race)
}

// missingPrograms returns those of the programs that no earlier run has built, and that no archive has.
func missingPrograms(repoRoot string, race bool, names []string) (missing []string, err error) {
	archive, err := prebuilt(repoRoot)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		path := ""
		if _, ok := sources[name]; !ok {
			path, err = commandPath(repoRoot, name, race)
		} else if archive != "" || asset(name) != "" {
			continue
		} else {
			var c located
			c, err = locate(name)
			path = c.path
		}
		if err != nil {
			return nil, err
		}
		if !exists(path) {
			missing = append(missing, name)
		}
	}
	return missing, nil
}

// estimate is how long the programs of a list take that are still to be built.
type estimate struct {
	missing []string
	built   int
	// took is the time of the first ones, cost what they cost on an idle machine.
	took, cost time.Duration
}

// place returns the place of a program in the list, from 1 on; 0 if it is not in it.
func (e *estimate) place(name string) int { return slices.Index(e.missing, name) + 1 }

// step is what a line of progress calls the build of a program.
func (e *estimate) step(name string) string {
	if place := e.place(name); place > 0 {
		return fmt.Sprintf("%s (%d of %d)", name, place, len(e.missing))
	}
	return name
}

// end notes the end of a build.
func (e *estimate) end(name string, took time.Duration) {
	if e.place(name) > 0 {
		e.built, e.took, e.cost = e.built+1, e.took+took, e.cost+costOf(name)
	}
}

// leftAt is left at the build of a program, 0 for unknown if that is not in the list.
func (e *estimate) leftAt(name string) time.Duration {
	if e.place(name) == 0 {
		return 0
	}
	return e.left()
}

// left returns how long the rest takes if the machine stays as fast as it was so far.
func (e *estimate) left() (left time.Duration) {
	for _, name := range e.missing[e.built:] {
		left += costOf(name)
	}
	if e.cost < 10*time.Second {
		return left
	}
	return time.Duration(float64(left) * float64(e.took) / float64(e.cost))
}

// costOf is the time of a build on an idle machine. The go command keeps about four processors busy, not more.
func costOf(name string) time.Duration {
	return buildCosts[name] / time.Duration(min(4, runtime.NumCPU()))
}

// roughly writes a time in words.
func roughly(d time.Duration) string {
	switch n := int(d.Round(time.Minute) / time.Minute); {
	case d < time.Minute:
		return "less than a minute"
	case n == 1:
		return "about a minute"
	default:
		return fmt.Sprintf("about %d minutes", n)
	}
}
