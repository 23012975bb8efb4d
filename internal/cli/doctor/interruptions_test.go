// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"berth.dev/berth/internal/mix/interruptions"
	"berth.dev/berth/test/clitest"
)

func TestDoctorOnInterruptions(t *testing.T) {
	ownKeys := clitest.OneOfEach().Cluster(t).Profile.Args.SpreadSpotOver
	require.NotEmpty(t, ownKeys)
	interrupted := func(keys ...string) string {
		table := interruptions.Table{Keys: keys}
		table, _ = table.Observe(
			interruptions.Interruption{Node: "n", Domain: "d"}, clitest.Now,
			interruptions.Settings{SharePercent: 20, Quarantine: time.Hour, Longest: time.Hour},
		)
		text, err := table.Encode()
		require.NoError(t, err)
		return text
	}
	forbidden := interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return apierrors.NewForbidden(corev1.Resource("configmaps"), interruptions.ConfigMap, nil)
		},
	}
	for name, tc := range map[string]struct {
		// denied is the verb that an account may not use.
		account, denied string
		funcs           interceptor.Funcs
		text            string
		level           Level
		message, fix    string
	}{
		"nothing was interrupted": {level: OK, message: "domains with interruptions in the last hours: 0, in quarantine: 0"},
		"a quarantine": {
			text: interrupted(ownKeys...), level: OK, message: "domains with interruptions in the last hours: 1, in quarantine: 1",
		},
		"the scheduler may not read": {
			account: "berth-scheduler", denied: "watch", level: Warn,
			message: "not allowed: berth-scheduler: watch configmaps berth-controller-interruptions", fix: rbacFiles,
		},
		"the controller may not write": {
			account: controllerAccount, denied: "patch", level: Warn,
			message: "not allowed: berth-controller: patch configmaps berth-controller-interruptions", fix: rbacFiles,
		},
		"the user may not read": {
			funcs: forbidden, level: Warn, message: "not allowed: get configmaps berth-controller-interruptions",
			fix: "get the right to get this ConfigMap",
		},
		"other keys": {
			text: interrupted("rack"), level: Warn, message: `the node labels of the interruption domains differ: ["rack"]`,
			fix: "--scheduler-config",
		},
		"no table": {
			text: "{", level: Warn, message: "decode the interruptions",
			fix: "delete ConfigMap berth-system/berth-controller-interruptions",
		},
	} {
		t.Run(name, func(t *testing.T) {
			kube := fake.NewClientset()
			kube.PrependReactor("create", "subjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
				review := action.(clienttesting.CreateAction).GetObject().(*authv1.SubjectAccessReview)
				a := review.Spec.ResourceAttributes
				assert.Equal(t, "berth-system", a.Namespace)
				assert.Equal(t, interruptions.ConfigMap, a.Name)
				review.Status.Allowed = a.Verb != tc.denied || !strings.HasSuffix(review.Spec.User, ":"+tc.account)
				return true, review, nil
			})
			var objects []client.Object
			if tc.text != "" {
				objects = append(objects, &corev1.ConfigMap{
					ObjectMeta: metav1.ObjectMeta{Namespace: "berth-system", Name: interruptions.ConfigMap},
					Data:       map[string]string{interruptions.DataKey: tc.text},
				})
			}
			p := &patient{
				kube: kube, client: clitest.Client(t, tc.funcs, objects...), systemNamespace: "berth-system", now: clitest.Now,
				settings: clitest.OneOfEach().Cluster(t).Settings,
			}
			r := &Report{}
			p.interruptions(t.Context(), r)
			require.Len(t, r.Findings, 1)
			assert.Equal(t, tc.level, r.Findings[0].Level)
			assert.Contains(t, r.Findings[0].Message, tc.message)
			assert.Contains(t, r.Findings[0].Next, tc.fix)
		})
	}
}
