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
	"berth.dev/berth/internal/kube/display"
	"berth.dev/berth/internal/mix/overview"
)

const aboutRecords = `Shows DeploymentRecords. Phases, functions and requirements are as the controller last reported them; FUNCTIONS is ready/all. "records get"
counts objects, replicas and pods in the cluster.`

var recordKind = command.Kind[*v1alpha1.DeploymentRecord, RecordStatus]{
	Kind: "DeploymentRecord", Resource: overview.RecordsResource,
	NewList: func() client.ObjectList { return &v1alpha1.DeploymentRecordList{} },
	Key:     "records", Nouns: "records", Of: recordOf,
	Observed: func(r *v1alpha1.DeploymentRecord) int64 { return r.Status.ObservedGeneration },
	Unseen:   "no controller reconciles records: enable controller records of berth-controller (see kubectl berth doctor)",
	Header:   []string{"CLASS", "TEMPLATE", "PHASE", "FUNCTIONS", "NFR"},
	Wide:     []string{"ENFORCEMENT", "ENVIRONMENT", "CONTROLLER", "MESSAGE"},
	Row: func(_ *command.Options, s *RecordStatus) []any {
		return []any{
			s.Class, s.Template, s.Phase, fmt.Sprintf("%d/%d", s.ReadyFunctions, s.Functions), s.NFR,
			s.Enforcement, s.Environment, s.Controller, s.Message,
		}
	},
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
	Controller  display.ReportState      `json:"controller"`
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
	}, nil)
}

// aRecord is a command about one record.
func aRecord(o *command.Options, use, short, long, example string,
	run func(ctx context.Context, c client.Client, rec *v1alpha1.DeploymentRecord) error,
) *cobra.Command {
	return recordKind.One(o, &cobra.Command{Use: use, Short: short, Long: long, Example: example}, recordKind.Get, run)
}

func recordOf(rec *v1alpha1.DeploymentRecord) RecordStatus {
	s := RecordStatus{
		Namespace: rec.Namespace, Name: rec.Name, Class: rec.Spec.DeploymentUnit.ClassKey, Template: rec.Status.Template,
		Phase: cmp.Or(rec.Status.Phase, v1alpha1.PhasePending), Message: rec.Status.Message,
		Functions:   len(rec.Spec.DeploymentUnit.Functions),
		Enforcement: v1alpha1.EnforcementObserve, Environment: rec.Spec.TargetEnvironment,
		Controller: display.Reported(rec.Status.ObservedGeneration, rec.Generation), Created: rec.CreationTimestamp,
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
