// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"regexp"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
)

// pseudonymDomain is the domain of pseudonyms of names with a domain: such a resource is an extended one, and such a label has a prefix.
const pseudonymDomain = "anonymous.berth.dev/"

// pseudonymBytes is how much of the hash a pseudonym has: of a million names, two have the same with a probability of 1 to 10^12.
const pseudonymBytes = 10

var lower = base32.HexEncoding.WithPadding(base32.NoPadding)

// pseudonyms replaces each text by the same pseudonym wherever it is: what was equal is equal, and what differed differs. So selectors,
// affinities and references match as before, whatever field they are in. The hash has a secret in it: without it, names could be guessed.
type pseudonyms struct {
	seed []byte
	// kept are labels that the caller keeps.
	kept sets.Set[string]
	// ordinals are the names of the pods of StatefulSets, whose number at the end is kept: decisions read it.
	ordinals sets.Set[string]
	known    map[string]string
}

// name returns the pseudonym of a text, which is valid wherever the text was: as a name, a label, a key of a label or a resource.
func (p *pseudonyms) name(s string) string {
	if s == "" || isWord(s) || p.kept.Has(s) {
		return s
	}
	if known, ok := p.known[s]; ok {
		return known
	}
	var out string
	if base, number, ok := ordinal(s); ok && p.ordinals.Has(s) {
		out = p.name(base) + "-" + number
	} else {
		out = p.hash(s)
		if prefix, name, ok := strings.Cut(s, "/"); ok && prefix != "" && name != "" {
			out = pseudonymDomain + out
		}
	}
	p.known[s] = out
	return out
}

func (p *pseudonyms) hash(s string) string {
	h := hmac.New(sha256.New, p.seed)
	h.Write([]byte(s))
	return "x" + strings.ToLower(lower.EncodeToString(h.Sum(nil)[:pseudonymBytes]))
}

// ordinal cuts the number from the name of a pod of a StatefulSet.
func ordinal(s string) (base, number string, ok bool) {
	dash := strings.LastIndexByte(s, '-')
	if dash <= 0 {
		return "", "", false
	}
	base, number = s[:dash], s[dash+1:]
	return base, number, number != "" && strings.Trim(number, "0123456789") == ""
}

// isNumber reports whether a text is a decimal number as Kubernetes writes it.
func isNumber(s string) bool {
	n, err := strconv.ParseInt(s, 10, 64)
	return err == nil && strconv.FormatInt(n, 10) == s
}

// amounts are numbers, percentages, lists of numbers, and the fields of schedules.
var amounts = regexp.MustCompile(`^[-+*0-9][-+*0-9.:%,]*$`)

// amount returns a text if it is an amount, a time or a duration, otherwise its pseudonym.
func (p *pseudonyms) amount(s string) string {
	if amounts.MatchString(s) {
		return s
	}
	if _, err := time.Parse(time.RFC3339, s); err == nil {
		return s
	}
	if _, err := time.ParseDuration(s); err == nil {
		return s
	}
	return p.name(s)
}

// parts replaces each part of a text between separators.
func parts(text, separators string, replace func(string) string) string {
	var out strings.Builder
	for text != "" {
		end := strings.IndexAny(text, separators)
		if end < 0 {
			end = len(text)
		}
		out.WriteString(replace(text[:end]))
		if end < len(text) {
			out.WriteByte(text[end])
			end++
		}
		text = text[end:]
	}
	return out.String()
}

// annotation returns the value of an annotation that is kept.
func (p *pseudonyms) annotation(key, value string) string {
	switch f, _ := formOf(key); f {
	case names:
		return parts(value, separators, p.name)
	case version:
		of, generation, ok := strings.Cut(value, "@")
		of = parts(of, "/", p.name)
		if !ok {
			return of
		}
		return of + "@" + p.amount(generation)
	}
	return parts(value, separators, p.amount)
}
