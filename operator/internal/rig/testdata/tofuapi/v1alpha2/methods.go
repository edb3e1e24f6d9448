// SPDX-License-Identifier: Apache-2.0

package v1alpha2

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func (t *Terraform) GetConditions() []metav1.Condition       { return t.Status.Conditions }
func (t *Terraform) SetConditions(list []metav1.Condition)   { t.Status.Conditions = list }
func (t *Terraform) GetReconciliationFailures() int64        { return t.Status.ReconciliationFailures }
func (t *Terraform) IncrementReconciliationFailures()        { t.Status.ReconciliationFailures++ }
func (t *Terraform) ToBytes(*runtime.Scheme) ([]byte, error) { return json.Marshal(t) }

func (t *Terraform) FromBytes(b []byte, _ *runtime.Scheme) error { return json.Unmarshal(b, t) }

func (t *Terraform) GetDependsOn() []meta.DependencyReference {
	var list []meta.DependencyReference
	for _, d := range t.Spec.DependsOn {
		list = append(list, meta.DependencyReference{Name: d.Name, Namespace: d.Namespace})
	}
	return list
}

func (t *Terraform) GetRetryInterval() time.Duration {
	return orElse(t.Spec.RetryInterval, 15*time.Second)
}

func (t *Terraform) GetRunnerHostname(address, domain string) string {
	return strings.ReplaceAll(address, ".", "-") + "." + t.Namespace + ".pod." + domain
}

func (t *Terraform) ShouldRetry() bool {
	return t.Spec.Remediation == nil || t.Status.ReconciliationFailures < t.Spec.Remediation.Retries
}

func (t *Terraform) WorkspaceName() string {
	if t.Spec.Workspace == "" {
		return DefaultWorkspaceName
	}
	return t.Spec.Workspace
}

func (s *TerraformSpec) GetAlwaysCleanupRunnerPod() bool {
	return s.AlwaysCleanupRunnerPod == nil || *s.AlwaysCleanupRunnerPod
}

func (h HealthCheck) GetTimeout() time.Duration { return orElse(h.Timeout, 20*time.Second) }

func (w Webhook) IsEnabled() bool { return w.Enabled == nil || *w.Enabled }

func orElse(d *metav1.Duration, otherwise time.Duration) time.Duration {
	if d == nil {
		return otherwise
	}
	return d.Duration
}
