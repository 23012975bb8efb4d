// SPDX-License-Identifier: Apache-2.0

package live_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"berth.dev/berth/internal/live"
	"berth.dev/berth/internal/mix/interruptions"
)

func TestInterruptionsAreThoseOfTheInstallation(t *testing.T) {
	settings, err := live.Defaults()
	require.NoError(t, err)
	now := time.Now()
	in := func(namespace string, keys []string) *corev1.ConfigMap {
		table := interruptions.Table{Keys: keys}
		table, _ = table.Observe(interruptions.Interruption{Node: "x", Domain: namespace}, now, interruptions.Settings{})
		text, err := table.Encode()
		require.NoError(t, err)
		return &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: interruptions.ConfigMap},
			Data:       map[string]string{interruptions.DataKey: text},
		}
	}
	c := fake.NewClientBuilder().WithObjects(
		in("berth-system", settings.Profile.Args.SpreadSpotOver), in("other", settings.Profile.Args.SpreadSpotOver), in("strange", []string{"rack"}),
	).Build()
	table, err := live.Installation{SystemNamespace: "other"}.Interruptions(t.Context(), c, settings, now)
	require.NoError(t, err)
	assert.NotNil(t, table.Find("other"))
	_, err = live.Installation{SystemNamespace: "strange"}.Interruptions(t.Context(), c, settings, now)
	require.ErrorIs(t, err, interruptions.ErrOtherKeys, "they are unknown, not 0")
}
