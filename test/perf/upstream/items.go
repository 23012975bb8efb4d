// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	perf "k8s.io/kubernetes/test/integration/scheduler_perf"

	"berth.dev/berth/test/perf/bench"
)

// addItems adds what scheduler_perf itself measured. Its latencies are in
// milliseconds and those of all pods, also of such that were there before.
func addItems(v bench.Values, dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return err
	}
	if len(files) != 1 {
		return fmt.Errorf("%s has %d results, not one", dir, len(files))
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		return err
	}
	var items perf.DataItems
	if err := json.Unmarshal(text, &items); err != nil {
		return err
	}
	if len(items.DataItems) == 0 {
		return fmt.Errorf("%s is empty: the run failed before its end", files[0])
	}
	for _, item := range items.DataItems {
		add(v, item)
	}
	return nil
}

func add(v bench.Values, item perf.DataItem) {
	switch item.Labels["Metric"] {
	case "SchedulingThroughput":
		v["upstream_pods_per_s"] = item.Data["Average"]
	case "scheduler_scheduling_attempt_duration_seconds":
		if item.Labels["result"] == "scheduled" {
			v["attempt_p50_ms"], v["attempt_p99_ms"] = item.Data["Perc50"], item.Data["Perc99"]
		}
	case "scheduler_scheduling_algorithm_duration_seconds":
		v["algorithm_mean_ms"] = item.Data["Average"]
	case "scheduler_framework_extension_point_duration_seconds":
		v[strings.ToLower(item.Labels["extension_point"])+"_mean_ms"] = item.Data["Average"]
	case "heap_memory_usage":
		v["heap_max_mb"] = item.Data["Max"]
	}
}
