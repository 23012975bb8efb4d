// SPDX-License-Identifier: Apache-2.0

package hostile_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/generators/extremes"
	"berth.dev/berth/test/testenv"
)

// bases are contents that the rules of each kind accept. A kind that is not here makes the test fail.
var bases = map[string]string{
	"CapacityMix":            "{selector: {matchLabels: {app: hostile}}, spotPercent: 50}",
	"ResourceLimit":          "{selector: {matchLabels: {app: hostile}}, cpu: 1m}",
	"SchedulingPolicy":       "{podSelector: {matchLabels: {app: hostile}}}",
	"Reservation":            "{podSelector: {matchLabels: {app: hostile}}, cpu: 1m, nodeSelector: {none: none}}",
	"DeploymentTemplate":     `{functionManifests: ["{apiVersion: v1, kind: ConfigMap, metadata: {name: '${name}'}}"]}`,
	"DeploymentRecord":       "{deploymentUnit: {functions: [{functionKey: f, image: registry.example/f}]}, addons: []}",
	"Environment":            "{stack: {backend: {container: {image: registry.example/b}}}}",
	"DatabaseBackup":         "{environment: none, method: Dump}",
	"DatabaseBackupSchedule": "{environment: none, method: Dump, schedule: '0 3 * * *'}",
	"DatabaseRestore":        "{environment: none, backup: none}",
	"SchedulingDecision":     "{id: a, outcome: Bound, time: '2026-01-01T00:00:00Z'}",
}

// exclusive has a field of a kind that goes with none of its base's.
var exclusive = map[string]string{"Reservation": "spec.podName"}

// more is how many times as much an object may cost for what programs make of it: an Environment has a namespace with its policies,
// quotas and workloads, a record has workloads, and records are rendered again with a template.
var more = map[string]int{"Environment": 8, "DeploymentRecord": 2, "DeploymentTemplate": 2}

// some is how many objects with one field at an extreme there are of each kind where not all fields have one.
var some = testenv.Length(25, objects)

// busy is how much more processor time the same work takes beside other suites.
var busy = time.Duration(testenv.Length(2, 1))

// fullObjects is how many objects there are with all fields at once. The API server takes half a second of processor time for each.
var fullObjects = testenv.Length(10, objects)

const (
	// objects is how many there are of each kind, with one field at an extreme. They are bounded together: what programs do once for
	// all of them is more than what a few may cost.
	objects = 100
	// leastAllowed is what any number of objects may cost: the last ones of a kind may be few, and processor time has a resolution.
	leastAllowed = 20 * timeEach
	// corrections is how often a writer removes what the API server refuses from an object.
	corrections = 20
	// ofField is an annotation with the field that is at an extreme.
	ofField = "example.com/field"
)

// denied finds the field for which an admission policy refuses an object.
var denied = regexp.MustCompile(`denied request: ([\w.\[\]]+): `)

// kindOf is a kind with the contents of its objects.
type kindOf struct {
	name string
	all  []extremes.Extreme
}

// kinds returns Berth's kinds, with contents that are made from their schemas. A field without a bound is a failure.
func kinds(t *testing.T) (list []kindOf) {
	t.Helper()
	files, err := filepath.Glob(testenv.Path("manifests/crds/berth.dev_*.yaml"))
	require.NoError(t, err)
	for _, file := range files {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		require.NoError(t, yaml.UnmarshalStrict([]byte(testenv.ReadFile(t, file)), crd))
		kind := kindOf{name: crd.Spec.Names.Kind}
		require.Contains(t, bases, kind.name, "a new kind has a base")
		base := map[string]any{}
		require.NoError(t, utilyaml.Unmarshal([]byte(bases[kind.name]), &base)) // its integers are no floats
		root := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
		for _, standard := range []string{"apiVersion", "kind", "metadata", "status"} { // users do not write the status
			delete(root.Properties, standard)
		}
		kind.all, err = extremes.Of(kind.name, root, map[string]any{part(root): base})
		require.NoError(t, err)
		list = append(list, kind)
	}
	require.Len(t, list, len(bases))
	return list
}

// part returns the field of an object that has its content.
func part(root *extremes.Schema) string {
	if _, has := root.Properties["spec"]; has {
		return "spec"
	}
	return "attempt"
}

// each returns objects with one field at an extreme, of as many fields as there can be.
func (k *kindOf) each() (list []*unstructured.Unstructured) {
	n := testenv.Length(some, max(objects, len(k.all)))
	for i := range n {
		at := i % len(k.all)
		if n < len(k.all) {
			at = i * len(k.all) / n
		}
		o := k.object(fmt.Sprint("one-", i), k.all[at].Value)
		o.SetAnnotations(map[string]string{ofField: k.all[at].Field})
		list = append(list, o)
	}
	return list
}

// full returns objects with all fields at once, and with annotations as long as can be.
func (k *kindOf) full() (list []*unstructured.Unstructured) {
	for i := range fullObjects {
		o := k.object(fmt.Sprint("all-", i), k.all[len(k.all)-1].Value)
		o.SetAnnotations(map[string]string{"example.com/long": strings.Repeat("a", fat)})
		list = append(list, o)
	}
	return list
}

func (k *kindOf) object(name string, content map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(content)}
	o.SetGroupVersionKind(v1alpha1.SchemeGroupVersion.WithKind(k.name))
	o.SetName(strings.ToLower(k.name) + "-" + name)
	return o
}

// answers are what became of objects.
type answers struct {
	mu sync.Mutex
	// taken and corrected are how many were accepted, and how many of these without some of their fields.
	taken, corrected int
	// bytes are those of the accepted objects, and allowed is what processor time they may cost a program.
	bytes   int
	allowed time.Duration
	// refused has the fields for which others were refused.
	refused map[string]int
}

func (a *answers) accept(o *unstructured.Unstructured, corrected bool) {
	text, _ := o.MarshalJSON() // which was just sent
	a.mu.Lock()
	defer a.mu.Unlock()
	a.taken++
	if corrected {
		a.corrected++
	}
	a.bytes += len(text)
	a.allowed += timeEach * time.Duration(1+more[o.GetKind()]+len(text)/unit)
}

func (a *answers) refuse(field string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refused[field]++
}

// writeAll creates objects. Fields that the API server refuses are removed: what it accepts is what programs get. Same means that
// all have the content of the first one.
func (t *tenant) writeAll(list []*unstructured.Unstructured, same bool) *answers {
	a := &answers{refused: map[string]int{}}
	if same {
		t.correct(list[0], a)
		for i, o := range list[1:] {
			list[i+1] = list[0].DeepCopy()
			list[i+1].SetName(o.GetName())
		}
		list = list[1:]
	}
	parallel(len(list), func(i int) { t.correct(list[i], a) })
	return a
}

func (t *tenant) correct(o *unstructured.Unstructured, a *answers) {
	o.SetNamespace(t.namespace)
	for i := range corrections {
		err := t.w.Client.Create(t.w.Ctx, o.DeepCopy())
		if err == nil {
			a.accept(o, i > 0)
			return
		}
		fields := fieldsOf(err)
		switch {
		case len(fields) == 0:
			t.fault("%s of %s: neither accepted nor refused for a field: %v", o.GetName(), o.GetAnnotations()[ofField], err)
			return
		case i == corrections-1, !extremes.Without(o.Object, fields) && !extremes.Without(o.Object, []string{exclusive[o.GetKind()]}):
			a.refuse(fields[0])
			return
		}
	}
}

// fieldsOf returns the fields for which the API server refuses an object. The whole object may be too large for it, or for the time
// that it has for a request.
func fieldsOf(err error) (fields []string) {
	if apierrors.IsRequestEntityTooLargeError(err) || apierrors.IsTimeout(err) || strings.Contains(err.Error(), "request is too large") {
		return []string{"all"}
	}
	if found := denied.FindStringSubmatch(err.Error()); found != nil {
		return found[1:]
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return nil
	}
	for _, cause := range status.Status().Details.Causes {
		if cause.Field != "" && !slices.Contains(fields, cause.Field) {
			fields = append(fields, cause.Field)
		}
	}
	return fields
}

// attack writes objects while a neighbour's workload is placed, and bounds what both cost each program.
func (h *host) attack(t *testing.T, tenant *tenant, app string, list []*unstructured.Unstructured, same bool) {
	w := *h.World
	w.T = t
	before, began := h.processorTimes(t), time.Now()
	for name, p := range h.programs {
		h.alive(t, name)
		resetPeak(t, p)
	}
	var a *answers
	var writes sync.WaitGroup
	writes.Go(func() { a = tenant.writeAll(list, same) })
	h.neighbours = append(h.neighbours, app)
	took := place(&w, app)
	writes.Wait()
	written := time.Since(began)
	h.calm(&w)
	assert.Empty(t, tenant.faults)
	tenant.faults = nil
	a.allowed = busy * max(a.allowed, leastAllowed)
	h.kept += a.bytes
	switch kind := list[0].GetKind(); {
	case kind == "DeploymentRecord":
		h.records += a.bytes
	case kind == "DeploymentTemplate" && fullObjects == objects:
		a.allowed += timeEach * time.Duration(h.records/unit) // all records are rendered again, once for the batch
	}
	text := fmt.Sprintf("%d of %d objects with %d KB accepted in %s, %d of them corrected; a neighbour placed in %s, before in %s; %s allowed",
		a.taken, len(list), a.bytes>>10, written.Round(time.Millisecond), a.corrected, took.Round(time.Millisecond),
		h.usual.took.Round(time.Millisecond), a.allowed)
	for name, p := range h.programs {
		used := processorTime(t, p) - before[name] - h.usual.time[name] - time.Duration(float64(time.Since(began))*h.usual.idle[name])
		growth := peak(t, p) - h.start[name]
		text += fmt.Sprintf("; %s %s, %+d MB", name, used.Round(time.Millisecond), growth>>20)
		assert.Less(t, used, a.allowed, "processor time of the %s", name)
		assert.Less(t, growth, mostGrowth+memoryPerByte*h.kept, "memory of the %s at its peak", name)
	}
	t.Log(text)
	t.Log("refused: ", a.refused)
	assert.GreaterOrEqual(t, a.taken, len(list)/2, "too many objects are refused, so that they test nothing: %v", a.refused)
}

// The objects are made from the schemas of all kinds, so that these are all that a role lets a tenant write.
func TestAnObjectOfAnyKindCostsLittle(t *testing.T) {
	all := kinds(t)
	h := newHost(t)
	tenant := newTenant(h.World, 0)
	d := builders.Deployment("hostile", 3)
	d.Namespace = tenant.namespace
	require.NoError(t, h.Client.Create(h.Ctx, d))
	h.calm(h.World)
	for _, k := range all {
		name := strings.ToLower(k.name)
		for batch := range slices.Chunk(k.each(), objects) {
			first := batch[0].GetAnnotations()[ofField]
			t.Run(k.name+" with one field from "+first, func(t *testing.T) {
				h.attack(t, tenant, fmt.Sprintf("%s-one-%d", name, len(h.neighbours)), batch, false)
			})
		}
		t.Run(k.name+" with all fields", func(t *testing.T) { h.attack(t, tenant, name+"-all", k.full(), true) })
	}
	for _, app := range h.neighbours {
		h.RequireExact(app, neighbourMix, replicas)
	}
	assert.Empty(t, h.Evictions(), "no tenant's pods are moved for what another one writes")
}
