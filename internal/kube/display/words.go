// SPDX-License-Identifier: Apache-2.0

// Package display has the words in which all programs show objects of the API: counts, ages, names, and how recent a status is.
package display

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
)

// Unknown is what kubectl prints for a value that is unknown.
const Unknown = "<unknown>"

// Age is how long ago a time was, as kubectl prints it.
func Age(now, then time.Time) string {
	if then.IsZero() {
		return Unknown
	}
	return duration.HumanDuration(now.Sub(then))
}

// Short is a duration as it is written: 2s, 1m30s, 24h.
func Short(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// Count is "1 pod", "3 pods".
func Count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %s", n, Plural(thing))
}

// Clause is a number of things and what they do: "1 pod runs", "3 pods run".
func Clause(n int, thing, does, do string) string {
	if n == 1 {
		do = does
	}
	return Count(n, thing) + " " + do
}

// All is each of several things, or the only one: "all 3 pods", "the only pod".
func All(n int, thing string) string {
	if n == 1 {
		return "the only " + thing
	}
	return "all " + Count(n, thing)
}

// Plural is several of a thing: pods, policies, mixes, classes.
func Plural(thing string) string {
	if stem, ok := strings.CutSuffix(thing, "y"); ok {
		return stem + "ies"
	}
	if strings.HasSuffix(thing, "x") || strings.HasSuffix(thing, "ss") {
		return thing + "es"
	}
	return thing + "s"
}

// Upper begins a sentence.
func Upper(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// Listed names the first few.
func Listed(names []string) string { return ListedUpTo(3, names) }

// ListedUpTo is Listed with another number of names.
func ListedUpTo(few int, names []string) string {
	if len(names) > few {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:few], ", "), len(names)-few)
	}
	return strings.Join(names, ", ")
}

// Description is an object in words: facts as kubectl describe has them, and sentences after them.
type Description struct {
	Facts     []Fact
	Sentences []string
}

// Fact is a name with a value.
type Fact struct{ Name, Value string }

// Add adds a fact, unless it is empty.
func (d *Description) Add(name, text string) {
	if text != "" {
		d.Facts = append(d.Facts, Fact{name, strings.ReplaceAll(text, "\n", " ")})
	}
}
