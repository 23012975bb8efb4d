// SPDX-License-Identifier: Apache-2.0

package kind_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"berth.dev/berth/test/testenv"
)

// The kubelet brings a changed ConfigMap into the running pods, and every replica uses it.
func TestAChangedConfigMapTakesEffectWithoutARestart(t *testing.T) {
	w := testenv.New(t)
	waitRolledOut(w, "berth-controller")
	before := starts(w)
	require.Len(t, before, 2)

	setDryRun(w, true)
	t.Cleanup(func() { setDryRun(w, false) })
	waitTold(w, "from=false to=true")
	setDryRun(w, false)
	waitTold(w, "from=true to=false")
	assert.Equal(t, before, starts(w), "no pod was replaced, and no container started again")
}

// starts are the restarts of the controller's containers, by pod.
func starts(w *testenv.World) map[types.UID]int32 {
	w.T.Helper()
	of := map[types.UID]int32{}
	for _, p := range berthPods(w, "berth-controller") {
		of[p.UID] = p.Status.ContainerStatuses[0].RestartCount
	}
	return of
}

func setDryRun(w *testenv.World, is bool) {
	w.T.Helper()
	const file = "config.yaml"
	testenv.Patch(w, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: berthNamespace, Name: "berth-controller-config"}}, func(c *corev1.ConfigMap) {
		config := map[string]any{}
		require.NoError(w.T, yaml.Unmarshal([]byte(c.Data[file]), &config))
		config["dryRun"] = is
		b, err := yaml.Marshal(config)
		require.NoError(w.T, err)
		c.Data[file] = string(b)
	})
}

// waitTold waits until every replica says that dryRun was changed.
func waitTold(w *testenv.World, change string) {
	w.T.Helper()
	w.Within(startTimeout, "every replica uses the changed dryRun, "+change, func() (bool, string) {
		told := 0
		pods := berthPods(w, "berth-controller")
		for _, p := range pods {
			if strings.Contains(logs(w, berthNamespace, p.Name), fmt.Sprintf("field=%q %s", "dryRun", change)) {
				told++
			}
		}
		return told == len(pods), fmt.Sprintf("%d of %d", told, len(pods))
	})
}
