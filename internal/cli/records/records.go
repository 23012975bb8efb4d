// SPDX-License-Identifier: Apache-2.0

// Package records has the commands about DeploymentRecords.
package records

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/live"
	"berth.dev/berth/internal/mix/overview"
)

const aboutRecords = `Shows DeploymentRecords. Phases, functions and requirements are as the controller last reported them; FUNCTIONS is ready/all. "records get"
counts objects, replicas and pods in the cluster.`

var recordKind = command.Kind[*v1alpha1.DeploymentRecord, *v1alpha1.DeploymentRecordList]{
	Resource: "deploymentrecords." + v1alpha1.GroupName,
	New:      func() *v1alpha1.DeploymentRecord { return &v1alpha1.DeploymentRecord{} },
	NewList:  func() *v1alpha1.DeploymentRecordList { return &v1alpha1.DeploymentRecordList{} },
}

// Records is what `records` shows.
type Records struct {
	Records []RecordStatus `json:"records"`
	// Notes are for people.
	Notes []string `json:"notes,omitempty"`
}

// RecordStatus is one DeploymentRecord.
type RecordStatus struct {
	Namespace string                   `json:"namespace"`
	Name      string                   `json:"name"`
	Class     string                   `json:"class,omitempty"`
	Template  string                   `json:"template,omitempty"`
	Phase     v1alpha1.DeploymentPhase `json:"phase,omitempty"`
	Message   string                   `json:"message,omitempty"`
	// Functions are all of the spec; ReadyFunctions those that the controller last saw ready.
	Functions      int `json:"functions"`
	ReadyFunctions int `json:"readyFunctions"`
	// NFR is whether the requirements are met, "" if nothing was measured.
	NFR         v1alpha1.Compliance      `json:"nfr,omitempty"`
	Enforcement v1alpha1.EnforcementMode `json:"enforcement"`
	Environment string                   `json:"environment,omitempty"`
	Controller  overview.ReportState     `json:"controller"`
	Created     metav1.Time              `json:"created"`
}

// New returns the command records.
func New(o *command.Options) *cobra.Command {
	cmd := listRecords(o, "records")
	cmd.Short, cmd.Long = "Show DeploymentRecords, their objects and recommendations", aboutRecords
	cmd.AddCommand(listRecords(o, "list"), newRecordsGet(o), newRecommendations(o), newHistory(o))
	return cmd
}

// listRecords is `records`, and the same as `records list`.
func listRecords(o *command.Options, use string) *cobra.Command {
	return recordKind.List(o, &cobra.Command{
		Use:     use,
		Short:   "List the records of a namespace",
		Long:    aboutRecords,
		Example: "  kubectl berth records\n  kubectl berth records list -A -l team=shop -o wide",
	}, func(list *v1alpha1.DeploymentRecordList, namespace string) error {
		return showRecords(o, recordsOf(list.Items), namespace)
	})
}

// aRecord is a command about one record.
func aRecord(o *command.Options, use, short, long, example string,
	run func(ctx context.Context, c client.Client, rec *v1alpha1.DeploymentRecord) error,
) *cobra.Command {
	return recordKind.One(o, &cobra.Command{Use: use, Short: short, Long: long, Example: example}, recordKind.Get, run)
}

// recordsOf sums up records, sorted by namespace and name.
func recordsOf(list []v1alpha1.DeploymentRecord) *Records {
	out := &Records{Records: make([]RecordStatus, 0, len(list))}
	live.SortByName(list)
	for i := range list {
		out.Records = append(out.Records, recordOf(&list[i]))
	}
	out.Notes = recordNotes(out.Records)
	return out
}

func recordOf(rec *v1alpha1.DeploymentRecord) RecordStatus {
	s := RecordStatus{
		Namespace: rec.Namespace, Name: rec.Name, Class: rec.Spec.DeploymentUnit.ClassKey, Template: rec.Status.Template,
		Phase: cmp.Or(rec.Status.Phase, v1alpha1.PhasePending), Message: rec.Status.Message,
		Functions:   len(rec.Spec.DeploymentUnit.Functions),
		Enforcement: v1alpha1.EnforcementObserve, Environment: rec.Spec.TargetEnvironment,
		Controller: overview.Reported(rec.Status.ObservedGeneration, rec.Generation), Created: rec.CreationTimestamp,
	}
	asked := map[string]bool{}
	for i := range rec.Spec.DeploymentUnit.Functions {
		asked[rec.Spec.DeploymentUnit.Functions[i].FunctionKey] = true
	}
	for i := range rec.Status.Functions {
		if f := &rec.Status.Functions[i]; f.Ready && asked[f.FunctionKey] { // the status may have one that the spec no longer has
			s.ReadyFunctions++
		}
	}
	if c := rec.Status.NFRCompliance; c != nil {
		s.NFR = c.Overall
	}
	if e := rec.Spec.Enforcement; e != nil && e.Mode != "" {
		s.Enforcement = e.Mode
	}
	if rec.DeletionTimestamp != nil {
		s.Phase = v1alpha1.PhaseDeleting
	}
	return s
}

// recordNotes name records that no controller reconciles.
func recordNotes(records []RecordStatus) []string {
	reports := overview.Reports{}
	for i := range records {
		reports.Add(records[i].Namespace+"/"+records[i].Name, records[i].Controller)
	}
	return reports.Notes("no controller reconciles records: enable controller records of berth-controller (see kubectl berth doctor)")
}

func showRecords(o *command.Options, r *Records, namespace string) error {
	t := &printers.Table{
		Header: []string{"NAMESPACE", "NAME", "CLASS", "TEMPLATE", "PHASE", "FUNCTIONS", "NFR", "AGE"},
		Wide:   []string{"ENFORCEMENT", "ENVIRONMENT", "CONTROLLER", "MESSAGE"}, Namespaces: namespace == "",
	}
	for i := range r.Records {
		s := &r.Records[i]
		t.Names = append(t.Names, "deploymentrecord."+v1alpha1.GroupName+"/"+s.Name)
		t.Add(s.Namespace, s.Name, s.Class, s.Template, s.Phase, fmt.Sprintf("%d/%d", s.ReadyFunctions, s.Functions), s.NFR,
			o.Age(s.Created), s.Enforcement, s.Environment, s.Controller, s.Message)
	}
	return o.PrintList(r, t, "No records found in "+printers.InNamespace(namespace)+".", r.Notes...)
}
