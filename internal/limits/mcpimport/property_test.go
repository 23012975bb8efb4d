// SPDX-License-Identifier: Apache-2.0

package mcpimport

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/test/generators"
)

var (
	dnsName    = rapid.StringMatching(`[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?`)
	labelName  = rapid.StringMatching(`[A-Za-z0-9]([-A-Za-z0-9_.]{0,20}[A-Za-z0-9])?`)
	labelKey   = rapid.StringMatching(`([a-z0-9]{1,10}[.][a-z]{2,5}/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,20}[A-Za-z0-9])?`)
	labelValue = rapid.StringMatching(`([A-Za-z0-9]([-A-Za-z0-9_.]{0,20}[A-Za-z0-9])?)?`)
)

func anyQuantity(t *rapid.T, label string) resource.Quantity {
	n := rapid.Int64Range(1, 1<<40).Draw(t, label)
	unit := rapid.SampledFrom([]string{"", "m", "k", "M", "Ki", "Mi", "Gi"}).Draw(t, label+" unit")
	return resource.MustParse(strconv.FormatInt(n, 10) + unit)
}

func optionalQuantity(t *rapid.T, label string) *resource.Quantity {
	if !rapid.Bool().Draw(t, label+" given") {
		return nil
	}
	return new(anyQuantity(t, label))
}

func anyVolume(t *rapid.T) v1alpha1.VolumeLimit {
	return v1alpha1.VolumeLimit{Size: anyQuantity(t, "size"), StorageClass: rapid.Ptr(dnsName, true).Draw(t, "class")}
}

// anyLimit is a limit that upstream can hold.
func anyLimit(t *rapid.T) *v1alpha1.ResourceLimit {
	return &v1alpha1.ResourceLimit{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "ResourceLimit"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: dnsName.Draw(t, "namespace"), Name: dnsName.Draw(t, "name"),
			Labels: rapid.MapOfN(labelName, labelValue, 0, 3).Draw(t, "labels"),
		},
		Spec: v1alpha1.ResourceLimitSpec{
			Description: rapid.String().Draw(t, "description"),
			CPU:         optionalQuantity(t, "cpu"), CPULimit: optionalQuantity(t, "cpuLimit"),
			Memory: optionalQuantity(t, "memory"), MemoryLimit: optionalQuantity(t, "memoryLimit"),
			EphemeralStorage: optionalQuantity(t, "ephemeralStorage"),
			Volumes:          rapid.MapOfN(dnsName, rapid.Custom(anyVolume), 0, 3).Draw(t, "volumes"),
			NodeSelector:     rapid.MapOfN(labelKey, labelValue, 0, 3).Draw(t, "selector"),
			NodeAffinity:     generators.NodeAffinity(t),
		},
	}
}

func TestWhatIsWrittenIsReadAgain(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limit := anyLimit(t)
		for _, form := range Forms() {
			cm, left := Write(limit, form)
			again, _ := Write(limit, form)
			require.Equal(t, cm, again, "the same bytes each time")
			require.Empty(t, left)
			got, notes, err := Parse(cm)
			require.NoError(t, err)
			require.Empty(t, notes)
			require.Equal(t, asJSON(t, limit), asJSON(t, got), form)
			known, ok := FormOf(cm)
			require.True(t, ok)
			require.Equal(t, form, known)
		}
	})
}

// FuzzParse: whatever a ConfigMap holds, nothing panics, an error names the ConfigMap, and what was read can be written in
// both forms and read again as the same.
func FuzzParse(f *testing.F) {
	for _, form := range Forms() {
		cm, _ := Write(sizeOn(), form)
		f.Add(cm.Name, cm.Data[keyCPU], cm.Data[keyMemoryLimit], cm.Data[keyVolumes], cm.Data[keyNodeSelector], cm.Data[keyNodeAffinity])
	}
	f.Add("rl-a", "null", `""`, "{}", `"null"`, unwrapped)
	f.Add("rl-a", "1e-30", "-5", `{"a":{"size":"1","storageClass":"x","storage_class":""}}`, `{"a":"b","a":"c"}`, `{"nodeAffinity":[]}`)
	f.Add("resource-limit-rl-a", "９", `"\ud800"`, `{"":null}`, `{"\u0000":""}`, `"{\"podAffinity\":1}"`)
	f.Fuzz(func(t *testing.T, name, cpu, memoryLimit, volumes, nodeSelector, nodeAffinity string) {
		cm := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "mcp", Name: name, Labels: map[string]string{customPrefix + "team": "a"}},
			Data: map[string]string{
				keyCPU: cpu, keyMemoryLimit: memoryLimit, keyVolumes: volumes, keyNodeSelector: nodeSelector, keyNodeAffinity: nodeAffinity,
			},
		}
		limit, _, err := Parse(cm)
		if err != nil {
			assert.Nil(t, limit)
			assert.ErrorContains(t, err, "ConfigMap mcp/"+name+": ")
			return
		}
		for _, form := range Forms() {
			written, left := Write(limit, form)
			require.Empty(t, left)
			got, notes, err := Parse(written)
			require.NoError(t, err)
			require.Empty(t, notes)
			require.Equal(t, asJSON(t, limit), asJSON(t, got))
		}
	})
}
