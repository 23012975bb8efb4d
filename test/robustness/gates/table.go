// SPDX-License-Identifier: Apache-2.0

package gates

import "berth.dev/berth/test/robustness/history"

const (
	prefilter = "plugins/capacitymix/prefilter.go"
	filter    = "plugins/capacitymix/filter.go"
	reserve   = "plugins/capacitymix/reserve.go"
	bind      = "plugins/capacitymix/bind.go"
	ungater   = "plugins/capacitymix/ungate/ungater.go"
	deleter   = "plugins/capacitymix/ungate/delete.go"
	decide    = "controllers/mix/rebalance/decide.go"
	calls     = "controllers/mix/rebalance/calls.go"
	prove     = "controllers/mix/rebalance/prove.go"
	journal   = "controllers/mix/rebalance/journal.go"
	reconcile = "controllers/mix/rebalance/reconcile.go"
	status    = "controllers/mix/status/controller.go"
	patch     = "internal/kube/applyset/status.go"
	repair    = "controllers/mix/status/repair.go"
	surge     = "controllers/mix/rebalance/surge.go"
	leavers   = "controllers/mix/rebalance/leavers.go"
)

const (
	returned  = "return err"
	errStatus = "return fwk.AsStatus(err)"
	withErr   = "r.Err = err; return"
	retried   = ".queue.AddRateLimited(key); return"
)

// All are the gates, in the order in which a program reaches them.
var All = []Gate{
	{
		Program: history.Scheduler, Name: "after PreFilter", Scenario: Placed,
		File: prefilter, Fails: "return nil, fwk.AsStatus(err)",
		Next: "\tcycleState.Write(preFilterStateKey, s)\n",
	},
	{
		Program: history.Scheduler, Name: "in Filter", Scenario: Placed,
		File: filter, Fails: errStatus,
		Next: "\tn := pl.node(nodeInfo)\n",
	},
	{
		Program: history.Scheduler, Name: "before Reserve", Scenario: Placed,
		File: reserve, Fails: errStatus,
		Next: "\tif reason := pl.outdated(",
	},
	{
		Program: history.Scheduler, Name: "after Reserve", Scenario: Placed,
		File: reserve, Fails: errStatus,
		Next: "\treturn nil\n}\n\n// outdated returns",
	},
	{
		Program: history.Scheduler, Name: "before the Binding", Scenario: Placed,
		File: bind, Fails: returned,
		Next: "\terr := binding.Make(ctx, pl.handle, b)\n",
	},
	{
		Program: history.Scheduler, Name: "after the Binding", Scenario: Placed,
		File: bind, Answered: lost,
		Next: "\tif err != nil && !binding.Refused(err) {\n",
	},
	{
		Program: history.Scheduler, Name: "before Unreserve", Scenario: Placed,
		File: reserve, First: "before the Binding",
		Next: "\tswitch s := readState(cycleState); {\n",
	},
	{
		Program: history.Scheduler, Name: "after the claim of a gated pod", Scenario: Gated,
		File: ungater,
		Next: "\t\tpatches <- struct{}{}\n",
	},
	{
		Program: history.Scheduler, Name: "before a pod is ungated", Scenario: Gated,
		File: ungater, Fails: "u" + retried,
		Next: "\t_, err := u.client.CoreV1().Pods(key.Namespace).Patch(timed",
	},
	{
		Program: history.Scheduler, Name: "after a pod is ungated", Scenario: Gated,
		File: ungater, Answered: lost,
		Next: "\tswitch {\n\tcase err == nil:\n\t\tmetrics.UngatedPods.",
	},
	{
		Program: history.Scheduler, Name: "before a pod is deleted for on-demand", Scenario: NoSpot,
		File: deleter, Fails: "f" + retried,
		Next: "\terr := f.client.CoreV1().Pods(pod.Namespace).Delete(timed",
	},
	{
		Program: history.Scheduler, Name: "after a pod is deleted for on-demand", Scenario: NoSpot,
		File: deleter, Answered: lost,
		Next: "\tlogger := klog.FromContext(ctx)\n\tswitch {\n\tcase err == nil:\n",
	},

	{
		Program: history.Controller, Name: "before a new leader reads the journal", Scenario: Led,
		File: journal, Fails: returned,
		Next: "\t\tobject, err = j.Client.CoreV1().ConfigMaps(j.Journal.Namespace).Get(",
	},
	{
		Program: history.Controller, Name: "after the decision to move", Scenario: Moved,
		File: decide,
		Next: "\tproof, err := c.proof.prove(ctx, a)\n",
	},
	{
		Program: history.Controller, Name: "before capacity is proven", Scenario: Moved,
		File: prove, Fails: "return proof, err",
		Next: "\tif err := p.takeSnapshot(ctx); err != nil {\n",
	},
	{
		Program: history.Controller, Name: "before a move is recorded", Scenario: Moved,
		File: decide, Fails: withErr,
		Next: "\t\tif r.Err = c.journal.recordMove(ctx, a.Record, paceKeyOf(&a.Of)); r.Err != nil {\n",
	},
	{
		Program: history.Controller, Name: "before the journal is written", Scenario: Moved,
		File: journal, Fails: returned,
		Next: "\t\twritten, err = j.Client.CoreV1().ConfigMaps(",
	},
	{
		Program: history.Controller, Name: "after the journal is written", Scenario: Moved,
		File: journal, Answered: lost,
		Next: "\tif err != nil {\n\t\t// Another version,",
	},
	{
		Program: history.Controller, Name: "before a move is confirmed", Scenario: Moved,
		File: decide, Fails: withErr,
		Next: "\tif proof.Scale, r.Err = c.scales.now(ctx, a); r.Err == nil {\n",
	},
	{
		Program: history.Controller, Name: "before the eviction", Scenario: Moved,
		File: calls, Fails: returned,
		Next: "\t\treturn a.Client.CoreV1().Pods(pod.Namespace).EvictV1(ctx,",
	},
	{
		Program: history.Controller, Name: "after the eviction", Scenario: Moved,
		File:     decide,
		Answered: "if " + lost + "; err != nil { c.api.noteOutage(ctx, err) }", // as bounded does
		Next:     "\tif r.Eviction, r.Err = refusal(a, err); r.Err != nil {\n",
	},
	{
		Program: history.Controller, Name: "after the move is noted", Scenario: Moved,
		File: decide,
		Next: "\tc.proof.snapshot.Assume(a.Proof.Admitted, a.Proof.Node)\n",
	},
	{
		Program: history.Controller, Name: "before the outcome is stored", Scenario: Moved,
		File: reconcile,
		Next: "\t\tc.store(w)\n\t}\n\treturn nil\n",
	},
	{
		Program: history.Controller, Name: "before a status is written", Scenario: Moved,
		File: status, Fails: returned,
		Next: "\tversion, err := applyset.Status(",
	},
	{
		Program: history.Controller, Name: "after a status is written", Scenario: Moved,
		File:     patch,
		Answered: `if err := faultgate.Answer(GATE, nil); err != nil { return "", err }`,
		Next:     "\treturn patch.GetResourceVersion(), nil\n",
	},
	{
		Program: history.Controller, Name: "before a release", Scenario: Released,
		File: surge, Fails: returned,
		Next: "\t\t\t_, err := c.Client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch,\n",
	},
	{
		Program: history.Controller, Name: "after a release", Scenario: Released,
		File: surge, Answered: lost,
		Next: "\tif apierrors.IsForbidden(err) {\n\t\treturn rebalance.Result{Eviction: resultError, Unreleasable:",
	},
	{
		Program: history.Controller, Name: "before a released replica is read", Scenario: Released,
		File: leavers, Fails: "return false, true, retireMore",
		Next: "\tpod, err := l.read(ctx, p, from, &crew)\n",
	},
	{
		Program: history.Controller, Name: "before a released replica is evicted", Scenario: Released,
		File: leavers,
		Next: "\t\terr = l.api.evict(ctx, pod, nil)\n",
	},
	{
		Program: history.Controller, Name: "after a released replica is evicted", Scenario: Released,
		File: leavers, Answered: lost,
		Next: "\t\tresult, _ := refusal(rebalance.Action{Verdict: rebalance.Verdict{Pod: p}}, err)\n",
	},
	{
		Program: history.Controller, Name: "after the eviction of a released replica is noted", Scenario: Released,
		File: leavers,
		Next: "\t\tlogger.Info(\"Evicted a released replica: its replacement is available\"",
	},
	{
		Program: history.Controller, Name: "before annotations are repaired", Scenario: Repaired,
		File: repair, Fails: "return false, err",
		Next: "\t_, err = r.Kube.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType,",
	},
	{
		Program: history.Controller, Name: "after annotations are repaired", Scenario: Repaired,
		File: repair, Answered: lost,
		Next: "\tif apierrors.IsNotFound(err) {\n\t\treturn true, nil\n\t}\n\tif err != nil {\n\t\treturn false, fmt.Errorf(\"patch pod",
	},
}
