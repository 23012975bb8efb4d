// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
)

// costly matches what takes long to read as a quantity, such as 1e99999999: a number with a long exponent, or a long number. It also
// matches other texts, such as hashes.
var costly = regexp.MustCompile(`[0-9.][eE][-+]?[0-9]{4}|[0-9.]{65}`)

// quantities are the fields that have quantities, or maps of them.
var quantities = sets.New("requests", "limits", "capacity", "allocatable", "overhead", "allocatedResources", "cpu", "memory", "cpuLimit",
	"memoryLimit", "ephemeralStorage", "size", "sizeLimit", "coefficient", "divisor", "storage")

// labelled are the fields with texts of any key.
var labelled = sets.New("labels", "annotations", "matchLabels", "nodeSelector")

// checkQuantities returns an error if an object has a quantity that takes long to read. Few objects have a text that has to be looked at.
func checkQuantities(object []byte) error {
	if !costly.Match(object) {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(object))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil {
		return err
	}
	return checkBelow(value, "", false)
}

// checkBelow checks the texts of a value, if it is or belongs to a field that has quantities.
func checkBelow(value any, field string, quantity bool) error {
	switch v := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if labelled.Has(name) {
				continue
			}
			if err := checkBelow(v[name], name, quantity || quantities.Has(name)); err != nil {
				return err
			}
		}
	case []any:
		for _, below := range v {
			if err := checkBelow(below, field, quantity); err != nil {
				return err
			}
		}
	case string, json.Number:
		if text := fmt.Sprint(v); quantity && costly.MatchString(text) {
			return fmt.Errorf("%s has a quantity that is too long: %.64q", field, text)
		}
	}
	return nil
}
