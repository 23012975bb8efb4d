// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/internal/mix/arguments"
	"berth.dev/berth/internal/mix/clusterstate"
)

// behind has the pods of a snapshot be those of a watch, and returns the nodes that are read.
func behind(s *Snapshot, now func(node string) ([]*corev1.Pod, error)) (read *[]string) {
	read = &[]string{}
	s.pods.current = map[string]bool{}
	s.pods.read = func(_ context.Context, fields string) (list []*clusterstate.Pod, err error) {
		nominated := strings.HasPrefix(fields, ",status.nominatedNodeName=")
		_, node, _ := strings.Cut(fields, "=") // "" for all
		if !nominated {
			*read = append(*read, node)
		}
		all, err := now(node)
		for _, p := range all {
			if nominated == (p.Spec.NodeName == "") {
				list = append(list, scheduled(p))
			}
		}
		return list, err
	}
	return read
}

func TestNoNodeIsNamedThatIsFullByNow(t *testing.T) {
	nodes := []*corev1.Node{node("n1", "1"), node("n2", "1"), node("n3", "1")}
	s := snapshot(t, DefaultProfile(), nodes, []*corev1.Pod{pod("there", "n3")})
	read := behind(s, func(node string) ([]*corev1.Pod, error) {
		if node == "n1" {
			return []*corev1.Pod{pod("late", "n1")}, nil
		}
		return nil, nil
	})
	assert.Equal(t, "n2", ask(t, s, Question{Pod: pod("a", "")}).Node)
	assert.Equal(t, []string{"n1", "n2"}, *read)
	assert.Equal(t, "n2", ask(t, s, Question{Pod: pod("b", "")}).Node)
	assert.Equal(t, "n1", ask(t, s, Question{Pod: pod("c", ""), Gone: []types.UID{"late"}}).Node)
	assert.Len(t, *read, 2, "each node is read once")

	s.Assume(pod("a", ""), "n2")
	assert.Equal(t, "0/3 nodes are available: 3 Insufficient cpu.", ask(t, s, Question{Pod: pod("b", "")}).Message())
}

func TestTheReplacementsOfASnapshotOutlastAReadingOfTheirNode(t *testing.T) {
	s := snapshot(t, DefaultProfile(), []*corev1.Node{node("n1", "2")}, nil)
	s.Assume(pod("a", ""), "n1")
	behind(s, func(string) ([]*corev1.Pod, error) { return []*corev1.Pod{pod("late", "n1")}, nil })
	assert.False(t, ask(t, s, Question{Pod: pod("b", "")}).Fits)
}

func TestAPodThatHasChangedIsRemovedAsItIsNow(t *testing.T) {
	of := func(cpu string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = resources(cpu) }
	}
	s := snapshot(t, DefaultProfile(), []*corev1.Node{node("n1", "4")}, []*corev1.Pod{pod("a", "n1"), pod("b", "n1")})
	behind(s, func(string) ([]*corev1.Pod, error) {
		return []*corev1.Pod{pod("b", "n1"), pod("a", "n1", of("2"))}, nil
	})
	assert.True(t, ask(t, s, Question{Pod: pod("c", "")}).Fits)
	assert.False(t, ask(t, s, Question{Pod: pod("c", "", of("2"))}).Fits)
	assert.True(t, ask(t, s, Question{Pod: pod("c", "", of("3")), Gone: []types.UID{"a"}}).Fits)
	assert.False(t, ask(t, s, Question{Pod: pod("c", "", of("3")), Gone: []types.UID{"b"}}).Fits)
}

func nominated(name, node string) *corev1.Pod {
	return pod(name, "", func(p *corev1.Pod) { p.Status.NominatedNodeName = node })
}

func TestAPodThatWasNominatedMeanwhileCounts(t *testing.T) {
	s := snapshot(t, DefaultProfile(), []*corev1.Node{node("n1", "1")}, nil)
	behind(s, func(string) ([]*corev1.Pod, error) { return []*corev1.Pod{nominated("late", "n1")}, nil })
	assert.False(t, ask(t, s, Question{Pod: pod("a", "")}).Fits)
}

func TestANominatedPodThatIsBoundCountsOnce(t *testing.T) {
	s := snapshot(t, DefaultProfile(), []*corev1.Node{node("n1", "2")}, []*corev1.Pod{nominated("late", "n1")})
	behind(s, func(string) ([]*corev1.Pod, error) { return []*corev1.Pod{pod("late", "n1")}, nil })
	assert.True(t, ask(t, s, Question{Pod: pod("a", "")}).Fits)
}

// The watch has not shown a pod in the zone, on a node that is not the candidate.
func TestAllPodsAreReadIfThoseOfOtherNodesCount(t *testing.T) {
	inZone := func(name string) *corev1.Node {
		n := node(name, "1")
		n.Labels[corev1.LabelTopologyZone] = "a"
		return n
	}
	nodes := []*corev1.Node{inZone("n1"), inZone("n2")}
	late := pod("late", "n1", func(p *corev1.Pod) { p.Labels = map[string]string{"app": "web"} })
	for key, want := range map[string]bool{corev1.LabelTopologyZone: false, corev1.LabelHostname: true} {
		s := snapshot(t, DefaultProfile(), nodes, nil)
		read := behind(s, func(node string) ([]*corev1.Pod, error) {
			if node == "" || node == "n1" {
				return []*corev1.Pod{late}, nil
			}
			return nil, nil
		})
		apart := pod("a", "", func(p *corev1.Pod) { p.Spec.Affinity = antiAffinity(key) })
		assert.Equal(t, want, ask(t, s, Question{Pod: apart}).Fits, key)
		assert.Equal(t, want, !slices.Contains(*read, ""), key)
	}
}

func TestCapacityThatCannotBeReadIsUnproven(t *testing.T) {
	var nodes []*corev1.Node
	for i := range maxBehind + 1 {
		nodes = append(nodes, node(fmt.Sprintf("n%02d", i), "1"))
	}
	full := func(node string) ([]*corev1.Pod, error) { return []*corev1.Pod{pod("on-"+node, node)}, nil }
	lost := errors.New("lost")
	for want, now := range map[error]func(string) ([]*corev1.Pod, error){
		errBehind: full, lost: func(string) ([]*corev1.Pod, error) { return nil, lost },
	} {
		s := snapshot(t, DefaultProfile(), nodes, nil)
		behind(s, now)
		_, err := s.Fits(t.Context(), Question{Pod: pod("a", "")})
		require.ErrorIs(t, err, want)
	}
}

// newWatched returns a cluster state that watches fill.
func newWatched(t testing.TB) *clusterstate.State {
	t.Helper()
	classifier, err := arguments.Classifier(DefaultProfile().Args)
	require.NoError(t, err)
	return clusterstate.New(clusterstate.Options{Classifier: classifier, Filtered: Filtered})
}

// The watches keep pods without what filters read if it is large.
func TestAPodThatIsTooLargeForAWatchIsRead(t *testing.T) {
	large := func(p *corev1.Pod) {
		p.Spec.Affinity = antiAffinity(strings.Repeat("b", 16<<10))
	}
	watched := newWatched(t)
	watched.SetPod(pod("small", "n1"))
	watched.SetPod(pod("large", "n1", large))
	watched.SetPod(pod("gone", "n1", large))
	watched.SetPod(pod("waiting", ""))
	watched.SetPod(pod("nominated", "", func(p *corev1.Pod) { p.Status.NominatedNodeName = "n1" }))
	client := clientOf(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		page := corev1.PodList{}
		if strings.HasSuffix(req.URL.Query().Get("fieldSelector"), ",metadata.namespace=ns,metadata.name=large") {
			page.Items = []corev1.Pod{*pod("large", "n1", large)}
		}
		_ = json.NewEncoder(w).Encode(page)
	}))
	kept, err := watchedPods(t.Context(), client, nil, watched)
	require.NoError(t, err)
	found := map[string]int{}
	for _, p := range kept.all {
		found[p.Name] = len(p.Filtered)
	}
	assert.Len(t, found, 3)
	assert.Greater(t, found["large"], 16<<10)
	assert.Less(t, found["small"], 1<<10)
	assert.Contains(t, found, "nominated")
}
