// SPDX-License-Identifier: Apache-2.0

// Package v1alpha2 has the fields of tofu-controller's CRD that its controller and its
// runner use, and what these call. Texts of a status are our own: tests may rely on
// revisions, generations, on a plan being there and on the status of conditions.
package v1alpha2

import (
	"encoding/json"

	"github.com/fluxcd/pkg/apis/meta"
	corev1 "k8s.io/api/core/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/scheme"
)

var (
	GroupVersion = schema.GroupVersion{Group: "infra.contrib.fluxcd.io", Version: "v1alpha2"}
	AddToScheme  = (&scheme.Builder{GroupVersion: GroupVersion}).Register(&Terraform{}, &TerraformList{}).AddToScheme
)

type Terraform struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              TerraformSpec   `json:"spec,omitempty"`
	Status            TerraformStatus `json:"status,omitempty"`
}

type TerraformList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Terraform `json:"items"`
}

type TerraformSpec struct {
	AlwaysCleanupRunnerPod              *bool                            `json:"alwaysCleanupRunnerPod,omitempty"`
	ApprovePlan                         string                           `json:"approvePlan,omitempty"`
	BackendConfig                       *BackendConfigSpec               `json:"backendConfig,omitempty"`
	BackendConfigsFrom                  []BackendConfigsReference        `json:"backendConfigsFrom,omitempty"`
	BreakTheGlass                       bool                             `json:"breakTheGlass,omitempty"`
	CliConfigSecretRef                  *corev1.SecretReference          `json:"cliConfigSecretRef,omitempty"`
	Cloud                               *CloudSpec                       `json:"cloud,omitempty"`
	DependsOn                           []meta.NamespacedObjectReference `json:"dependsOn,omitempty"`
	Destroy                             bool                             `json:"destroy,omitempty"`
	DestroyResourcesOnDeletion          bool                             `json:"destroyResourcesOnDeletion,omitempty"`
	DisableDriftDetection               bool                             `json:"disableDriftDetection,omitempty"`
	EnableInventory                     bool                             `json:"enableInventory,omitempty"`
	FileMappings                        []FileMappingSpec                `json:"fileMappings,omitempty"`
	Force                               bool                             `json:"force,omitempty"`
	HealthChecks                        []HealthCheck                    `json:"healthChecks,omitempty"`
	Interval                            metav1.Duration                  `json:"interval"`
	Parallelism                         int32                            `json:"parallelism,omitempty"`
	Path                                string                           `json:"path,omitempty"`
	Plan                                *PlanSpec                        `json:"plan,omitempty"`
	PlanOnly                            bool                             `json:"planOnly,omitempty"`
	ReadInputsFromSecrets               []ReadInputsFromSecretSpec       `json:"readInputsFromSecrets,omitempty"`
	RefreshBeforeApply                  bool                             `json:"refreshBeforeApply,omitempty"`
	Remediation                         *Remediation                     `json:"remediation,omitempty"`
	RetryInterval                       *metav1.Duration                 `json:"retryInterval,omitempty"`
	RunnerPodTemplate                   RunnerPodTemplate                `json:"runnerPodTemplate,omitempty"`
	RunnerTerminationGracePeriodSeconds *int64                           `json:"runnerTerminationGracePeriodSeconds,omitempty"`
	ServiceAccountName                  string                           `json:"serviceAccountName,omitempty"`
	SourceRef                           SourceReference                  `json:"sourceRef"`
	StoreReadablePlan                   string                           `json:"storeReadablePlan,omitempty"`
	Suspend                             bool                             `json:"suspend,omitempty"`
	Targets                             []string                         `json:"targets,omitempty"`
	TFState                             *TFStateSpec                     `json:"tfstate,omitempty"`
	TfVarsFiles                         []string                         `json:"tfVarsFiles,omitempty"`
	UpgradeOnInit                       bool                             `json:"upgradeOnInit,omitempty"`
	Values                              *apiextensions.JSON              `json:"values,omitempty"`
	Vars                                []Variable                       `json:"vars,omitempty"`
	VarsFrom                            []VarsReference                  `json:"varsFrom,omitempty"`
	Webhooks                            []Webhook                        `json:"webhooks,omitempty"`
	Workspace                           string                           `json:"workspace,omitempty"`
	WriteOutputsToSecret                *WriteOutputsToSecretSpec        `json:"writeOutputsToSecret,omitempty"`
}

type TerraformStatus struct {
	meta.ReconcileRequestStatus `json:",inline"`

	AvailableOutputs          []string           `json:"availableOutputs,omitempty"`
	Conditions                []metav1.Condition `json:"conditions,omitempty"`
	Inventory                 *ResourceInventory `json:"inventory,omitempty"`
	LastAppliedRevision       string             `json:"lastAppliedRevision,omitempty"`
	LastAttemptedRevision     string             `json:"lastAttemptedRevision,omitempty"`
	LastDriftDetectedAt       *metav1.Time       `json:"lastDriftDetectedAt,omitempty"`
	LastPlanAt                *metav1.Time       `json:"lastPlanAt,omitempty"`
	LastPlannedGeneration     int64              `json:"lastPlannedGeneration,omitempty"`
	LastPlannedRevision       string             `json:"lastPlannedRevision,omitempty"`
	LastSuccessfulReconcileAt *metav1.Time       `json:"lastSuccessfulReconcileAt,omitempty"`
	Lock                      LockStatus         `json:"lock,omitempty"`
	ObservedGeneration        int64              `json:"observedGeneration,omitempty"`
	Plan                      PlanStatus         `json:"plan,omitempty"`
	ReconciliationFailures    int64              `json:"reconciliationFailures,omitempty"`
}

type BackendConfigSpec struct {
	ConfigPath          string            `json:"configPath,omitempty"`
	CustomConfiguration string            `json:"customConfiguration,omitempty"`
	Disable             bool              `json:"disable,omitempty"`
	InClusterConfig     bool              `json:"inClusterConfig,omitempty"`
	Labels              map[string]string `json:"labels,omitempty"`
	SecretSuffix        string            `json:"secretSuffix,omitempty"`
}

type BackendConfigsReference struct {
	Keys     []string `json:"keys,omitempty"`
	Kind     string   `json:"kind"`
	Name     string   `json:"name"`
	Optional bool     `json:"optional,omitempty"`
}

// CloudSpec is a workspace of a service, which no test uses.
type CloudSpec struct{}

func (CloudSpec) ToHCL() string { return "" }

type FileMappingSpec struct {
	Location  string                  `json:"location"`
	Path      string                  `json:"path"`
	SecretRef meta.SecretKeyReference `json:"secretRef"`
}

type HealthCheck struct {
	Address string           `json:"address,omitempty"`
	Name    string           `json:"name"`
	Timeout *metav1.Duration `json:"timeout,omitempty"`
	Type    string           `json:"type"`
	URL     string           `json:"url,omitempty"`
}

type PlanSpec struct {
	Lock *bool `json:"lock,omitempty"`
}

type ReadInputsFromSecretSpec struct {
	As   string `json:"as"`
	Name string `json:"name"`
}

type Remediation struct {
	Retries int64 `json:"retries,omitempty"`
}

type RunnerPodTemplate struct {
	Metadata RunnerPodMetadata `json:"metadata,omitempty"`
	Spec     RunnerPodSpec     `json:"spec,omitempty"`
}

type RunnerPodMetadata struct {
	Annotations map[string]string `json:"annotations,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
}

type RunnerPodSpec struct {
	Affinity          *corev1.Affinity             `json:"affinity,omitempty"`
	Env               []corev1.EnvVar              `json:"env,omitempty"`
	EnvFrom           []corev1.EnvFromSource       `json:"envFrom,omitempty"`
	HostAliases       []corev1.HostAlias           `json:"hostAliases,omitempty"`
	Image             string                       `json:"image,omitempty"`
	InitContainers    []corev1.Container           `json:"initContainers,omitempty"`
	NodeSelector      map[string]string            `json:"nodeSelector,omitempty"`
	PriorityClassName string                       `json:"priorityClassName,omitempty"`
	Resources         *corev1.ResourceRequirements `json:"resources,omitempty"`
	SecurityContext   *corev1.SecurityContext      `json:"securityContext,omitempty"`
	Tolerations       []corev1.Toleration          `json:"tolerations,omitempty"`
	VolumeMounts      []corev1.VolumeMount         `json:"volumeMounts,omitempty"`
	Volumes           []corev1.Volume              `json:"volumes,omitempty"`
}

type SourceReference struct {
	Kind      string `json:"kind"`
	Name      string `json:"name"`
	Namespace string `json:"namespace,omitempty"`
}

type TFStateSpec struct {
	ForceUnlock    string          `json:"forceUnlock,omitempty"`
	LockIdentifier string          `json:"lockIdentifier,omitempty"`
	LockTimeout    metav1.Duration `json:"lockTimeout,omitempty"`
}

type Variable struct {
	Name  string              `json:"name"`
	Value *apiextensions.JSON `json:"value,omitempty"`
}

type VarsReference struct {
	Kind     string   `json:"kind"`
	Name     string   `json:"name"`
	Optional bool     `json:"optional,omitempty"`
	VarsKeys []string `json:"varsKeys,omitempty"`
}

type Webhook struct {
	Enabled              *bool  `json:"enabled,omitempty"`
	ErrorMessageTemplate string `json:"errorMessageTemplate,omitempty"`
	PayloadType          string `json:"payloadType,omitempty"`
	Stage                string `json:"stage"`
	TestExpression       string `json:"testExpression"`
	URL                  string `json:"url"`
}

type WriteOutputsToSecretSpec struct {
	Annotations map[string]string `json:"annotations,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Name        string            `json:"name"`
	Outputs     []string          `json:"outputs,omitempty"`
}

type LockStatus struct {
	LastApplied string `json:"lastApplied,omitempty"`
	Pending     string `json:"pending,omitempty"`
}

type PlanStatus struct {
	IsDestroyPlan bool   `json:"isDestroyPlan,omitempty"`
	LastApplied   string `json:"lastApplied,omitempty"`
	Pending       string `json:"pending,omitempty"`
}

type ResourceInventory struct {
	Entries []ResourceRef `json:"entries"`
}

type ResourceRef struct {
	Identifier string `json:"id"`
	Name       string `json:"n"`
	Type       string `json:"t"`
}

func (t *Terraform) DeepCopy() *Terraform               { return clone(t) }
func (t *Terraform) DeepCopyObject() runtime.Object     { return clone(t) }
func (l *TerraformList) DeepCopyObject() runtime.Object { return clone(l) }

// clone copies by way of JSON: slow, and never behind the fields.
func clone[T any](in *T) *T {
	b, err := json.Marshal(in)
	if err != nil {
		panic(err)
	}
	out := new(T)
	if err := json.Unmarshal(b, out); err != nil {
		panic(err)
	}
	return out
}
