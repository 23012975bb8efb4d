// SPDX-License-Identifier: Apache-2.0

// Package reload decides what a running berth-controller makes of a configuration file that changed.
package reload

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"berth.dev/berth/apis/config/controller"
)

// Fields are the fields that take effect in a running controller: what an operator turns in an incident, and what only
// bounds times and numbers. None of them changes what is watched, where something is served, or what objects look like.
var Fields = []string{
	"console.limits.connections",
	"console.limits.readings",
	"console.limits.sessions",
	"console.limits.sessionsPerUser",
	"console.limits.streams",
	"console.limits.streamsPerUser",
	"console.limits.unknownTokensPerSecond",
	"console.limits.unknownTokensPerSecondPerAddress",
	"dryRun",
	"environments.cleanUpFailedSeconds",
	"environments.deleteOrphansAfterSeconds",
	"environments.endedLogLines",
	"environments.historyLimit",
	"environments.orphanIntervalSeconds",
	"environments.startTimeoutSeconds",
	"mix.annotationRepairsPerMinute",
	"mix.rebalance.backoffSeconds",
	"mix.rebalance.canary.namespaces",
	"mix.rebalance.canary.percent",
	"mix.rebalance.clusterMaxConcurrent",
	"mix.rebalance.clusterMaxMovesPerHour",
	"mix.rebalance.eviction",
	"mix.rebalance.maxBackoffSeconds",
	"mix.rebalance.maxConcurrent",
	"mix.rebalance.maxMovesPerHour",
	"mix.rebalance.mode",
	"mix.rebalance.moveTimeoutSeconds",
	"mix.rebalance.provisioning",
	"mix.rebalance.stabilizationSeconds",
	"mix.rebalance.strategy",
	"mix.scaleIn",
	"services.defaultTimeoutSeconds",
	"services.maxStreamSeconds",
	"services.maxTimeoutSeconds",
	"services.requestLimits.calls",
	"services.requestLimits.callsPerCaller",
	"services.requestLimits.connections",
	"services.requestLimits.openCalls",
	"services.requestLimits.openCallsPerAddress",
	"services.requestLimits.streams",
	"services.requestLimits.streamsPerCaller",
	"services.requestLimits.unknownTokensPerSecond",
	"services.requestLimits.unknownTokensPerSecondPerAddress",
}

// Change is a field that a configuration has otherwise than another one.
type Change struct {
	// Field is the path of the field, such as rebalance.mode.
	Field    string
	From, To any
}

// Result is what a running controller makes of a configuration that it reads while it runs.
type Result struct {
	// Configuration is what it runs with from then on: the running one, with Fields as they were read.
	Configuration *controller.Configuration
	// TakeEffect are the changes that it has thereby, NeedRestart those that it has not; by field.
	TakeEffect, NeedRestart []Change
}

// Decide returns what becomes of a running configuration when another one is read. Neither is changed. An error means that
// the one that was read cannot take effect without what needs a restart.
func Decide(running, read *controller.Configuration) (*Result, error) {
	before, err := unstructuredOf(running)
	if err != nil {
		return nil, err
	}
	after, err := unstructuredOf(read)
	if err != nil {
		return nil, err
	}
	r := &Result{Configuration: &controller.Configuration{}}
	changes(nil, before, after, func(c Change) {
		if _, is := slices.BinarySearch(Fields, c.Field); is {
			r.TakeEffect = append(r.TakeEffect, c)
		} else {
			r.NeedRestart = append(r.NeedRestart, c)
		}
	})
	for _, c := range r.TakeEffect {
		if err := unstructured.SetNestedField(before, c.To, strings.Split(c.Field, ".")...); err != nil {
			return nil, fmt.Errorf("set %s: %w", c.Field, err)
		}
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(before, r.Configuration); err != nil {
		return nil, fmt.Errorf("make a configuration of what is running and what was read: %w", err)
	}
	if errs := r.Configuration.Validate(); len(errs) > 0 {
		return nil, fmt.Errorf("the fields that take effect without a restart are not valid without the others: %w", errs.ToAggregate())
	}
	return r, nil
}

func unstructuredOf(c *controller.Configuration) (map[string]any, error) {
	m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(c)
	if err != nil {
		return nil, fmt.Errorf("take a configuration apart: %w", err)
	}
	return m, nil
}

// changes calls each for every field that two configurations have otherwise, in the order of their paths.
func changes(path []string, before, after map[string]any, each func(Change)) {
	keys := maps.Clone(before)
	maps.Copy(keys, after)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		at := append(slices.Clone(path), key)
		from, to := before[key], after[key]
		one, is := from.(map[string]any)
		other, are := to.(map[string]any)
		switch {
		case is && are:
			changes(at, one, other, each)
		case !reflect.DeepEqual(from, to):
			each(Change{Field: strings.Join(at, "."), From: from, To: to})
		}
	}
}
