// SPDX-License-Identifier: Apache-2.0

// Package rules compiles the rules of SchedulingPolicies and of scheduler profiles.
package rules

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"berth.dev/berth/apis/v1alpha1"
)

const (
	defaultCandidates = 5
	defaultTTL        = time.Hour
	maxCoefficient    = 1000

	defaultLockTimeoutSeconds = 10
	defaultReservationSeconds = 60
)

// Rules are compiled rules. They are shared and must not be changed.
type Rules struct {
	// Functions are the score functions with a coefficient above 0, by priority, then by name.
	Functions []Function
	// PreferSpot: spot nodes meet a preference that no pod states.
	PreferSpot bool
	// FailureDomainKey is the node label of Spreading's failure domains.
	FailureDomainKey string
	TieBreaker       v1alpha1.TieBreaker
	// Seed is nil if random choices are not repeatable.
	Seed *int64

	// LockTimeout is how long a pod waits for the lock of its node, 0 if nodes are not locked.
	LockTimeout time.Duration
	// ReservationTimeout is how long a pod may have a node without being bound, 0 for no bound.
	ReservationTimeout time.Duration
	// GroupSize is the number of pods of a group that is bound in two phases, 0 for pods that are bound one by one.
	GroupSize int
	// GroupLabelKey is the key of the label that identifies a group, empty for the pods of one controller.
	GroupLabelKey string

	Record     v1alpha1.RecordMode
	Candidates int
	TTL        time.Duration
	Events     bool
	// Objects: the last record of each pod is kept as an object.
	Objects bool
}

// Function is a score function and its weight.
type Function struct {
	Name        v1alpha1.ScoreFunctionName
	Priority    int32
	Coefficient float64
}

// weights are the named weights.
var weights = map[v1alpha1.ScoreWeight]Function{
	v1alpha1.ScoreWeightDefault: {Priority: 1, Coefficient: 1},
	v1alpha1.ScoreWeightHigh:    {Priority: 10, Coefficient: 3},
	v1alpha1.ScoreWeightLow:     {Priority: 1, Coefficient: 0.5},
}

// presets are the named sets of functions.
var presets = map[v1alpha1.ScorePreset]map[v1alpha1.ScoreFunctionName]v1alpha1.ScoreWeight{
	v1alpha1.ScorePresetBalanced: {v1alpha1.ScoreResourceBalance: v1alpha1.ScoreWeightDefault},
	v1alpha1.ScorePresetSpread: {
		v1alpha1.ScoreSpreading:       v1alpha1.ScoreWeightHigh,
		v1alpha1.ScoreTopologySpread:  v1alpha1.ScoreWeightDefault,
		v1alpha1.ScoreAntiAffinity:    v1alpha1.ScoreWeightDefault,
		v1alpha1.ScoreResourceBalance: v1alpha1.ScoreWeightLow,
	},
	v1alpha1.ScorePresetPack: {v1alpha1.ScoreBinpacking: v1alpha1.ScoreWeightDefault},
	v1alpha1.ScorePresetLocality: {
		v1alpha1.ScorePreferredAffinity: v1alpha1.ScoreWeightHigh,
		v1alpha1.ScoreAntiAffinity:      v1alpha1.ScoreWeightDefault,
		v1alpha1.ScoreResourceBalance:   v1alpha1.ScoreWeightLow,
	},
	v1alpha1.ScorePresetCost: {
		v1alpha1.ScorePreferredAffinity: v1alpha1.ScoreWeightHigh,
		v1alpha1.ScoreBinpacking:        v1alpha1.ScoreWeightDefault,
	},
}

// Compile compiles rules. The API server has validated those of an object, but its validation can be older or removed, so
// the error names the field and the value.
func Compile(r *v1alpha1.SchedulingRules) (*Rules, error) {
	score, sel, decisions := ptr.Deref(r.Score, v1alpha1.ScoreRules{}), ptr.Deref(r.Select, v1alpha1.SelectRules{}),
		ptr.Deref(r.Decisions, v1alpha1.DecisionRules{})
	out := &Rules{
		PreferSpot:       score.Preset == v1alpha1.ScorePresetCost,
		FailureDomainKey: cmp.Or(score.FailureDomainKey, corev1.LabelInstanceTypeStable),
		TieBreaker:       cmp.Or(sel.TieBreaker, v1alpha1.TieBreakerLeastLoaded),
		Seed:             sel.Seed,
		Record:           cmp.Or(decisions.Record, v1alpha1.RecordOnFailure),
		Candidates:       int(ptr.Deref(decisions.Candidates, defaultCandidates)),
		TTL:              ttl(decisions.TTLSeconds),
		Events:           decisions.Events,
		Objects:          decisions.Objects,
	}
	functions, err := functionsOf(&score)
	out.Functions = functions
	return out, errors.Join(err, out.bind(ptr.Deref(r.Bind, v1alpha1.BindRules{})), out.validate())
}

// bind sets how pods are bound.
func (r *Rules) bind(b v1alpha1.BindRules) error {
	mode := cmp.Or(b.Mode, v1alpha1.BindOptimistic)
	errs := []error{oneOf("bind.mode", mode, v1alpha1.BindOptimistic, v1alpha1.BindPessimistic, v1alpha1.BindTwoPhase)}
	if b.ReservationSeconds != nil {
		errs = append(errs, between("bind.reservationSeconds", *b.ReservationSeconds, 1, 900))
		r.ReservationTimeout = time.Duration(*b.ReservationSeconds) * time.Second
	}
	switch mode {
	case v1alpha1.BindPessimistic:
		seconds := ptr.Deref(b.LockTimeoutSeconds, defaultLockTimeoutSeconds)
		errs = append(errs, between("bind.lockTimeoutSeconds", seconds, 1, 60))
		r.LockTimeout = time.Duration(seconds) * time.Second
	case v1alpha1.BindTwoPhase:
		r.GroupSize, r.GroupLabelKey = int(ptr.Deref(b.GroupSize, 0)), b.GroupLabelKey
		errs = append(errs, between("bind.groupSize", int32(r.GroupSize), 2, 100)) //nolint:gosec // it was an int32
		r.ReservationTimeout = cmp.Or(r.ReservationTimeout, defaultReservationSeconds*time.Second)
	}
	return errors.Join(errs...)
}

// between returns an error for a number that is out of bounds.
func between(field string, n, least, most int32) error {
	if n < least || n > most {
		return fmt.Errorf("%s: %d must be between %d and %d", field, n, least, most)
	}
	return nil
}

// oneOf returns an error for a value that is none of the supported ones, two at least.
func oneOf[T ~string](field string, value T, supported ...T) error {
	if slices.Contains(supported, value) {
		return nil
	}
	names := make([]string, len(supported))
	for i, s := range supported {
		names[i] = string(s)
	}
	last := len(names) - 1
	return fmt.Errorf("%s: %q is not supported: must be %s or %s", field, value, strings.Join(names[:last], ", "), names[last])
}

func ttl(seconds *int32) time.Duration {
	if seconds == nil {
		return defaultTTL
	}
	return time.Duration(*seconds) * time.Second
}

// validate returns an error for values that the definition of the resource does not allow.
func (r *Rules) validate() error {
	errs := []error{
		oneOf("select.tieBreaker", r.TieBreaker, v1alpha1.TieBreakerName, v1alpha1.TieBreakerRandom, v1alpha1.TieBreakerLeastLoaded,
			v1alpha1.TieBreakerRoundRobin, v1alpha1.TieBreakerWeightedRandom, v1alpha1.TieBreakerAffinityBased),
		oneOf("decisions.record", r.Record, v1alpha1.RecordNever, v1alpha1.RecordOnFailure, v1alpha1.RecordAlways),
	}
	if r.Candidates < 1 || r.Candidates > 50 {
		errs = append(errs, fmt.Errorf("decisions.candidates: %d must be between 1 and 50", r.Candidates))
	}
	if r.TTL < time.Minute || r.TTL > 24*time.Hour {
		errs = append(errs, fmt.Errorf("decisions.ttlSeconds: %d must be between 60 and 86400", int64(r.TTL/time.Second)))
	}
	return errors.Join(errs...)
}

// functionsOf returns the functions of rules with a coefficient above 0, by priority, then by name.
func functionsOf(score *v1alpha1.ScoreRules) ([]Function, error) {
	if score.Preset != "" && len(score.Functions) > 0 {
		return nil, errors.New("score: must have exactly one of preset and functions")
	}
	var functions []Function
	var errs []error
	for i := range score.Functions {
		f, err := functionOf(&score.Functions[i])
		if err != nil {
			errs = append(errs, fmt.Errorf("score.functions[%d].%w", i, err))
		}
		functions = append(functions, f)
	}
	if len(score.Functions) == 0 {
		preset := cmp.Or(score.Preset, v1alpha1.ScorePresetBalanced)
		if err := oneOf("score.preset", preset, v1alpha1.ScorePresetBalanced, v1alpha1.ScorePresetSpread, v1alpha1.ScorePresetPack,
			v1alpha1.ScorePresetLocality, v1alpha1.ScorePresetCost); err != nil {
			return nil, err
		}
		for name, weight := range presets[preset] {
			f := weights[weight]
			f.Name = name
			functions = append(functions, f)
		}
	}
	functions = slices.DeleteFunc(functions, func(f Function) bool { return f.Coefficient == 0 })
	if len(functions) == 0 && len(errs) == 0 {
		errs = append(errs, errors.New("score.functions: must have at least one coefficient above 0"))
	}
	slices.SortFunc(functions, func(a, b Function) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Name, b.Name))
	})
	return functions, errors.Join(errs...)
}

// functionOf returns a function with its weight.
func functionOf(f *v1alpha1.ScoreFunction) (Function, error) {
	weight := cmp.Or(f.Weight, v1alpha1.ScoreWeightDefault)
	out := weights[weight]
	if err := oneOf("weight", weight, v1alpha1.ScoreWeightDefault, v1alpha1.ScoreWeightHigh, v1alpha1.ScoreWeightLow); err != nil {
		return out, err
	}
	out.Name = f.Name
	if f.Priority != nil {
		out.Priority = *f.Priority
	}
	if f.Coefficient != nil {
		out.Coefficient = f.Coefficient.AsApproximateFloat64()
	}
	if !(out.Coefficient >= 0 && out.Coefficient <= maxCoefficient) { // what is not a number is not either
		return out, fmt.Errorf("coefficient: %v must be a number from 0 to %d", out.Coefficient, maxCoefficient)
	}
	return out, oneOf("name", f.Name, v1alpha1.ScoreResourceBalance, v1alpha1.ScoreSpreading, v1alpha1.ScoreBinpacking,
		v1alpha1.ScorePreferredAffinity, v1alpha1.ScoreAntiAffinity, v1alpha1.ScoreTopologySpread)
}

// NeedsAffinity reports whether the rules use how far the preferences of a pod are met.
func (r *Rules) NeedsAffinity() bool {
	return r.Has(v1alpha1.ScorePreferredAffinity) || r.TieBreaker == v1alpha1.TieBreakerAffinityBased
}

// Has reports whether the rules use a function.
func (r *Rules) Has(name v1alpha1.ScoreFunctionName) bool {
	return slices.ContainsFunc(r.Functions, func(f Function) bool { return f.Name == name })
}
