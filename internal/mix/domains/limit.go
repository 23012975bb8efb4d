// SPDX-License-Identifier: Apache-2.0

// Package domains decides how many replicas of a group a domain may have, and which domains a pod must not use. A domain
// is the nodes with one value of a label. It is pure.
package domains

import (
	"errors"
	"fmt"
)

const (
	// MaxLimits is the maximum number of limits of a mix.
	MaxLimits = 4
	// MaxBound is the maximum of Limit.Count.
	MaxBound = 1_000_000
)

// Limit bounds how many replicas of a group run in one domain.
type Limit struct {
	// Key is the node label whose value names the domain.
	Key string
	// Percent of the replicas of a group, or Count of them. The other one is 0.
	Percent, Count int32
	// Soft limits are preferences: they forbid no node.
	Soft bool
}

// Validate returns an error for the first field that is out of its range.
func (l Limit) Validate() error {
	switch {
	case l.Key == "":
		return errors.New("topologyKey: must not be empty")
	case (l.Percent == 0) == (l.Count == 0):
		return errors.New("maxPerDomain must have exactly one of maxPercent and maxCount")
	case l.Percent < 0 || l.Percent > 100:
		return fmt.Errorf("maxPercent: %d is not between 1 and 100", l.Percent)
	case l.Count < 0 || l.Count > MaxBound:
		return fmt.Errorf("maxCount: %d is not between 1 and %d", l.Count, MaxBound)
	}
	return nil
}

// Max returns how many of the replicas of a group of a size may run in one domain: the share is rounded down, and at
// least 1, since a group that may run nowhere would be of no use.
func (l Limit) Max(size int) int {
	if l.Percent == 0 {
		return int(l.Count)
	}
	size = min(max(size, 0), MaxBound*100) // a tenant may write any number of replicas
	return max(1, size*int(l.Percent)/100)
}

// String is the limit in words: "at most 34% of the replicas in one topology.kubernetes.io/zone".
func (l Limit) String() string {
	much := fmt.Sprintf("%d%% of the replicas", l.Percent)
	if l.Percent == 0 {
		much = replicas(int(l.Count))
	}
	if l.Soft {
		return fmt.Sprintf("preferably at most %s in one %s", much, l.Key)
	}
	return fmt.Sprintf("at most %s in one %s", much, l.Key)
}

// Refusal is why a limit does not admit a replica on a node.
type Refusal struct {
	Key, Value string
	// Have is how many replicas are in the domain, of Max.
	Have, Max int
	// Open is how many more may get there: their gates are removed, and they have no node yet.
	Open int
	// Unlabelled nodes are in no domain.
	Unlabelled bool
}

// Reason is the reason for which a scheduler refuses nodes. Equal ones are counted together.
func (r Refusal) Reason() string {
	if r.Unlabelled {
		return "node(s) lack the label " + r.Key + " of maxPerDomain"
	}
	are := "are"
	if r.Max == 1 {
		are = "is"
	}
	reason := fmt.Sprintf("node(s) are in a full domain: %d of at most %s %s in %s", r.Have, replicas(r.Max), are, r.Value)
	if r.Have < r.Max { // else they do not matter
		reason += fmt.Sprintf(", %s without a node may get there", replicas(r.Open))
	}
	return reason
}

// replicas is a number of replicas in words.
func replicas(n int) string {
	if n == 1 {
		return "1 replica"
	}
	return fmt.Sprintf("%d replicas", n)
}
