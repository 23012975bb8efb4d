// SPDX-License-Identifier: Apache-2.0

package backups

import (
	"cmp"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/phasecount"
)

var (
	backupsDesc   = prometheus.NewDesc("berth_database_backups", "DatabaseBackups, by phase.", []string{"phase"}, nil)
	restoresDesc  = prometheus.NewDesc("berth_database_restores", "DatabaseRestores, by phase.", []string{"phase"}, nil)
	schedulesDesc = prometheus.NewDesc("berth_database_backup_schedules",
		"DatabaseBackupSchedules, by the reason of the condition BackupCurrent.", []string{"reason"}, nil)

	allPhases = []v1alpha1.DatabaseBackupPhase{
		v1alpha1.DatabaseBackupPending, v1alpha1.DatabaseBackupRunning, v1alpha1.DatabaseBackupCompleted, v1alpha1.DatabaseBackupFailed,
	}
	allReasons = []string{
		v1alpha1.ReasonBackupCompleted, v1alpha1.ReasonBackupNotDue, v1alpha1.ReasonBackupTooOld, v1alpha1.ReasonInvalidSchedule,
	}
)

// NewCollectors returns what counts the objects of the three kinds.
func NewCollectors(r client.Reader) []prometheus.Collector {
	return []prometheus.Collector{
		phasecount.New(r, backupsDesc, allPhases, func(all *v1alpha1.DatabaseBackupList, yield func(v1alpha1.DatabaseBackupPhase)) {
			for i := range all.Items {
				yield(cmp.Or(all.Items[i].Status.Phase, v1alpha1.DatabaseBackupPending))
			}
		}),
		phasecount.New(r, restoresDesc, allPhases, func(all *v1alpha1.DatabaseRestoreList, yield func(v1alpha1.DatabaseBackupPhase)) {
			for i := range all.Items {
				yield(cmp.Or(all.Items[i].Status.Phase, v1alpha1.DatabaseBackupPending))
			}
		}),
		phasecount.New(r, schedulesDesc, allReasons, func(all *v1alpha1.DatabaseBackupScheduleList, yield func(string)) {
			for i := range all.Items {
				c := meta.FindStatusCondition(all.Items[i].Status.Conditions, v1alpha1.ConditionBackupCurrent)
				if c != nil {
					yield(c.Reason)
				}
			}
		}),
	}
}
