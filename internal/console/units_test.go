// SPDX-License-Identifier: Apache-2.0

package console

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth.dev/berth/internal/mix/overview"
)

// units is a workload of units of so many pods each.
func units(name string, pods int) overview.Workload {
	w := workload("ai", name)
	w.Kind, w.Units, w.Pods = "LeaderWorkerSet", len(w.Slots), len(w.Slots)*pods
	for i := range w.Slots {
		s := &w.Slots[i]
		s.Unit = fmt.Sprint("key-", i)
		for j := range pods {
			s.Pods = append(s.Pods, overview.UnitPod{Pod: fmt.Sprintf("%s-%d-%d", name, i, j), Node: fmt.Sprint("n", j), NodeType: s.NodeType})
		}
	}
	return w
}

func TestAUnitIsABlockOfTheRibbonWithItsPods(t *testing.T) {
	_, c := start(t, overviewOf(units("llm", 3)))
	_, page := get(t, c, "/")
	assert.Contains(t, page, `<i class="inplace type-spot unit" title="Slot 4 requires spot: on spot, unit key-4 of 3 pods: llm-4-0, llm-4-1, llm-4-2">s3</i>`)
	assert.Contains(t, page, "LeaderWorkerSet · 10 units")
	_, page = get(t, c, "/workloads/ai/LeaderWorkerSet/llm")
	assert.Contains(t, page, "<dd>10 units of 30 pods</dd>")
	assert.Contains(t, page, "llm-4-0<br>llm-4-1<br>llm-4-2</td>", "the row of a slot has all pods")
	assert.Contains(t, page, `<td data-label="Node">n0<br>n1<br>n2</td>`)

	_, c = start(t, overviewOf(units("big", 100)))
	_, page = get(t, c, "/workloads/ai/LeaderWorkerSet/big")
	assert.Contains(t, page, "big-4-7 and 92 more")
	assert.Contains(t, page, "big-4-63<br>36 more</td>", "but not hundreds")
}

func TestARoleHasAPageOfItsOwn(t *testing.T) {
	driver, executors := workload("data", "pi"), workload("data", "pi")
	driver.Role, driver.Replicas, driver.Slots, driver.ID = "driver", 1, driver.Slots[:1], "pi/driver"
	_, c := start(t, overviewOf(driver, executors))
	_, page := get(t, c, "/")
	assert.Contains(t, page, `<a href="/workloads/data/Deployment/pi?role=driver">`)
	assert.Contains(t, page, "Deployment · role driver")
	w, page := get(t, c, "/workloads/data/Deployment/pi?role=driver")
	assert.Equal(t, http.StatusOK, w.Code)
	assert.Contains(t, page, "<dt>Role</dt><dd>driver</dd>")
	assert.Contains(t, page, "<dt>Replicas</dt><dd>1</dd>")
	_, page = get(t, c, "/workloads/data/Deployment/pi")
	assert.Contains(t, page, "<dt>Replicas</dt><dd>10</dd>")
	_, page = get(t, c, "/?filter=driver")
	assert.Contains(t, page, "1 workload of 2 match")
}

func TestTheLegendHasTheLettersOfTheCommandLine(t *testing.T) {
	_, c := start(t, overviewOf(units("llm", 3)))
	_, page := get(t, c, "/")
	_, legend, found := strings.Cut(page, `class="legend"`)
	require.True(t, found)
	legend, _, _ = strings.Cut(legend, "</p>")
	for _, l := range overview.Letters {
		assert.Contains(t, legend, ">"+l.Text+"</i>", l.Means)
	}
	assert.Contains(t, legend, ">s4</i>")
}
