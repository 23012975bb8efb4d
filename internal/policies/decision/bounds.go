// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// The bounds of a record. The API server bounds names and policies already, but messages come from plugins.
const (
	maxMessage = 512
	// maxDemoted is the bound of why a node is demoted, which up to maxCandidates nodes have.
	maxDemoted = 128
	// maxName is the length of the longest name in a record, a label key: a DNS subdomain, a slash and 63 characters.
	maxName = 253 + 1 + 63

	maxCandidates = 50
	maxFunctions  = 6
	maxRejections = 16
)

// bounded returns a copy of a record with bounded strings and lists.
func bounded(r *Record) *Record {
	b := *r
	shorten(maxMessage, &b.Message)
	shorten(maxName, &b.ID, &b.Namespace, &b.Pod, (*string)(&b.UID), &b.SchedulerName, &b.Policy, (*string)(&b.Outcome), &b.Node,
		&b.TieBreaker, &b.Reservation)
	b.Functions = clone(b.Functions, maxFunctions)
	for i := range b.Functions {
		shorten(maxName, &b.Functions[i].Name)
	}
	b.Candidates = clone(b.Candidates, maxCandidates)
	// One array for the values of all candidates.
	values := make([]float64, 0, maxFunctions*len(b.Candidates))
	for i := range b.Candidates {
		c := &b.Candidates[i]
		shorten(maxName, &c.Node)
		shorten(maxDemoted, &c.Demoted)
		from := len(values)
		values = append(values, c.Values[:min(len(c.Values), maxFunctions)]...)
		c.Values = values[from:len(values):len(values)]
	}
	b.Rejections = clone(b.Rejections, maxRejections)
	for i := range b.Rejections {
		n := &b.Rejections[i]
		shorten(maxMessage, &n.Message)
		shorten(maxName, (*string)(&n.Reason), &n.Example, &n.Key, &n.Requested, &n.Available)
	}
	return &b
}

// clone copies the first elements of a list, at most so many.
func clone[T any](list []T, most int) []T {
	return slices.Clone(list[:min(len(list), most)])
}

// shorten cuts strings to a number of bytes, between characters.
func shorten(most int, texts ...*string) {
	for _, text := range texts {
		if len(*text) <= most {
			continue
		}
		end := most
		// In a string that is not UTF-8, a character can seem to have any length.
		for end > most-utf8.UTFMax && !utf8.RuneStart((*text)[end]) {
			end--
		}
		// A part of a string would keep all of it in memory.
		*text = strings.Clone((*text)[:end])
	}
}
