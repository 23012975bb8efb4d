// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"

	"berth.dev/berth/internal/mix/replacement"
)

// Anonymise returns a copy with pseudonyms: of namespaces, workloads, pods, nodes, UIDs, labels and whatever else is no word of Kubernetes
// or Berth. The same seed gives the same pseudonyms, and whoever has it can check guesses: keep it secret. Labels of nodes by which
// decisions are made, such as the zone, keep their keys and values, and keepLabels are further ones.
func (s *Snapshot) Anonymise(seed string, keepLabels ...string) (*Snapshot, error) {
	a := &anonymiser{
		pseudonyms: pseudonyms{
			seed: []byte(seed), kept: sets.New(keepLabels...), ordinals: sets.New[string](), known: map[string]string{},
		},
		compared: sets.New[string](),
	}
	lists := s.lists()
	for _, l := range lists {
		for i := range l.len() {
			a.look(l.at(i))
		}
	}
	h := s.Header
	h.Anonymised, h.Namespace, h.ServerVersion = true, a.name(h.Namespace), minor(h.ServerVersion)
	b := NewBuilder(h)
	for _, l := range lists {
		for i := range l.len() {
			o, ok := l.at(i).DeepCopyObject().(Object) // what objects share would otherwise be replaced twice
			if !ok {
				return nil, fmt.Errorf("%T is no object", o)
			}
			a.replace(reflect.ValueOf(o).Elem())
			if err := b.Add(o); err != nil {
				return nil, err
			}
		}
	}
	return b.Snapshot(), nil
}

var versions = regexp.MustCompile(`^v[0-9]+\.[0-9]+`)

// minor returns the minor version of Kubernetes: what follows names the provider.
func minor(version string) string { return versions.FindString(version) }

type anonymiser struct {
	pseudonyms
	// compared are labels whose numbers a requirement compares.
	compared sets.Set[string]
}

// look collects what depends on all objects.
func (a *anonymiser) look(o Object) {
	if ref := metav1.GetControllerOfNoCopy(o); ref != nil && replacement.MakerOf(ref) == replacement.StatefulSet {
		if _, _, ok := ordinal(o.GetName()); ok {
			a.ordinals.Insert(o.GetName())
		}
	}
	pairsOf(reflect.ValueOf(o).Elem(), func(pair reflect.Value) {
		if operator := pair.FieldByName("Operator"); operator.IsValid() &&
			(operator.String() == string(corev1.NodeSelectorOpGt) || operator.String() == string(corev1.NodeSelectorOpLt)) {
			a.compared.Insert(pair.FieldByName("Key").String())
		}
	})
}

var (
	quantityType    = reflect.TypeFor[resource.Quantity]()
	timeType        = reflect.TypeFor[metav1.Time]()
	microTimeType   = reflect.TypeFor[metav1.MicroTime]()
	intOrStringType = reflect.TypeFor[intstr.IntOrString]()
)

// replace replaces all texts of a value. No type of an object has a rule of its own, so a field that a later version adds has pseudonyms,
// too.
func (a *anonymiser) replace(v reflect.Value) {
	switch v.Type() {
	case quantityType, timeType, microTimeType:
		return
	case intOrStringType:
		text := v.FieldByName("StrVal")
		text.SetString(a.amount(text.String()))
		return
	}
	switch v.Kind() { //nolint:exhaustive // all others have no text
	case reflect.Pointer:
		if !v.IsNil() {
			a.replace(v.Elem())
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			a.replace(v.Index(i))
		}
	case reflect.Struct:
		a.replaceFields(v)
	case reflect.Map:
		a.replaceMap(v)
	case reflect.String:
		v.SetString(a.name(v.String()))
	}
}

// replaceFields replaces the texts of a struct. What is in annotations, labels and requirements depends on the key.
func (a *anonymiser) replaceFields(v reflect.Value) {
	pair := isPair(v)
	if pair {
		a.replacePair(v)
	}
	for f, value := range v.Fields() {
		if f.IsExported() && (!pair || !pairFields.Has(f.Name)) {
			a.replaceField(f.Name, value)
		}
	}
}

// pairFields are those that replacePair replaces.
var pairFields = sets.New("Key", "Value", "Values")

func (a *anonymiser) replaceField(name string, v reflect.Value) {
	texts, isTexts := reflect.TypeAssert[map[string]string](v)
	text := v
	if v.Kind() == reflect.Pointer && !v.IsNil() {
		text = v.Elem()
	}
	switch special := textFields[name]; {
	case isTexts && name == "Annotations":
		v.Set(reflect.ValueOf(a.annotations(texts)))
	case isTexts:
		v.Set(reflect.ValueOf(a.labels(texts)))
	case special != nil && text.Kind() == reflect.String:
		text.SetString(special(a, text.String()))
	default:
		a.replace(v)
	}
}

// textFields are fields that are no names.
var textFields = map[string]func(*anonymiser, string) string{
	"Schedule":         (*anonymiser).amounts,
	"CompletedIndexes": (*anonymiser).amounts,
	"FailedIndexes":    (*anonymiser).amounts,
	"TimeZone":         (*anonymiser).zone,
}

func (a *anonymiser) amounts(s string) string { return parts(s, " @,", a.amount) }

func (a *anonymiser) zone(s string) string {
	if _, err := time.LoadLocation(s); err == nil {
		return s
	}
	return a.name(s)
}

// isPair reports whether a struct is a taint, a toleration or a requirement: the key of a label, with values.
func isPair(v reflect.Value) bool {
	key, value, values := v.FieldByName("Key"), v.FieldByName("Value"), v.FieldByName("Values")
	return key.IsValid() && key.Kind() == reflect.String &&
		(value.IsValid() && value.Kind() == reflect.String || values.IsValid() && values.Kind() == reflect.Slice)
}

func pairsOf(v reflect.Value, yield func(reflect.Value)) {
	switch v.Kind() { //nolint:exhaustive // all others have no fields
	case reflect.Pointer:
		if !v.IsNil() {
			pairsOf(v.Elem(), yield)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			pairsOf(v.Index(i), yield)
		}
	case reflect.Struct:
		if isPair(v) {
			yield(v)
		}
		for _, f := range v.Fields() {
			pairsOf(f, yield)
		}
	}
}

func (a *anonymiser) replacePair(v reflect.Value) {
	key := v.FieldByName("Key")
	if value := v.FieldByName("Value"); value.IsValid() && value.Kind() == reflect.String {
		value.SetString(a.value(key.String(), value.String()))
	}
	if values := v.FieldByName("Values"); values.IsValid() && values.Kind() == reflect.Slice {
		for i := range values.Len() {
			values.Index(i).SetString(a.value(key.String(), values.Index(i).String()))
		}
	}
	key.SetString(a.name(key.String()))
}

func (a *anonymiser) replaceMap(v reflect.Value) {
	if v.IsNil() {
		return
	}
	out := reflect.MakeMapWithSize(v.Type(), v.Len())
	for it := v.MapRange(); it.Next(); {
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		key.Set(it.Key())
		value.Set(it.Value())
		a.replace(key)
		a.replace(value)
		out.SetMapIndex(key, value)
	}
	v.Set(out)
}

// value is the value of a label or a taint.
func (a *anonymiser) value(key, value string) string {
	switch {
	case a.kept.Has(key) || keepsValues(key) || ruleValues[key].Has(value):
		return value
	case isNumber(value) && (a.compared.Has(key) || numbered.Has(key)):
		return value
	}
	return a.name(value)
}

func (a *anonymiser) labels(all map[string]string) map[string]string {
	if all == nil {
		return nil
	}
	out := make(map[string]string, len(all))
	for key, value := range all {
		out[a.name(key)] = a.value(key, value)
	}
	return out
}

func (a *anonymiser) annotations(all map[string]string) map[string]string {
	out := maps.Clone(all)
	for key, value := range out {
		out[key] = a.annotation(key, value)
	}
	return out
}
