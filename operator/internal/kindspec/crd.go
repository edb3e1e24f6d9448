// SPDX-License-Identifier: Apache-2.0

package kindspec

import (
	"fmt"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
)

// maxName bounds a prefix and the name of an object together, in characters.
const maxName = 53

// CRDName is the name of the CRD of a definition.
func CRDName(def *v1alpha1.ModuleKind) string { return def.Spec.Names.Plural + "." + Group }

// Labels returns the labels of what is made for a definition.
func Labels(def *v1alpha1.ModuleKind) map[string]string {
	return map[string]string{v1alpha1.LabelManaged: "", v1alpha1.LabelUID: string(def.UID)}
}

// CRD returns the CRD of the kind. The API server's own code has accepted it.
func (k *Kind) CRD() *apiextensions.CustomResourceDefinition { return k.check.crd.DeepCopy() }

func (k *Kind) buildCRD() (*apiextensions.CustomResourceDefinition, error) {
	names := k.Definition.Spec.Names
	schema, err := k.root()
	if err != nil {
		return nil, err
	}
	return &apiextensions.CustomResourceDefinition{
		TypeMeta:   metav1.TypeMeta{APIVersion: apiextensions.SchemeGroupVersion.String(), Kind: "CustomResourceDefinition"},
		ObjectMeta: metav1.ObjectMeta{Name: CRDName(k.Definition), Labels: Labels(k.Definition)},
		Spec: apiextensions.CustomResourceDefinitionSpec{
			Group: Group, Scope: apiextensions.NamespaceScoped,
			Names: apiextensions.CustomResourceDefinitionNames{
				Kind: names.Kind, ListKind: names.Kind + "List", Plural: names.Plural, Singular: singularName(k.Definition), ShortNames: names.ShortNames,
				Categories: []string{"okara-all"},
			},
			Conversion: &apiextensions.CustomResourceConversion{Strategy: apiextensions.NoneConverter},
			Versions: []apiextensions.CustomResourceDefinitionVersion{{
				Name: Version, Served: true, Storage: true,
				Schema:       &apiextensions.CustomResourceValidation{OpenAPIV3Schema: schema},
				Subresources: &apiextensions.CustomResourceSubresources{Status: &apiextensions.CustomResourceSubresourceStatus{}},
				AdditionalPrinterColumns: []apiextensions.CustomResourceColumnDefinition{
					{Name: "Phase", Type: "string", JSONPath: ".status.phase"},
					{Name: "Version", Type: "string", JSONPath: ".status.module.version"},
					{Name: "Ready", Type: "string", JSONPath: `.status.conditions[?(@.type=="Ready")].status`},
					{Name: "Reason", Type: "string", JSONPath: `.status.conditions[?(@.type=="Ready")].reason`},
					{Name: "Suspended", Type: "boolean", JSONPath: ".spec.runOptions.suspend"},
					{Name: "Age", Type: "date", JSONPath: ".metadata.creationTimestamp"},
					{Name: "Message", Type: "string", Priority: 1, JSONPath: `.status.conditions[?(@.type=="Ready")].message`},
					{Name: "Outputs", Type: "string", Priority: 1, JSONPath: ".status.outputsSecret"},
				},
			}},
		},
	}, nil
}

func (k *Kind) root() (*apiextensions.JSONSchemaProps, error) {
	spec, err := k.specSchema()
	if err != nil {
		return nil, err
	}
	long := maxName - len(k.Definition.Spec.Run.Prefix)
	top := &apiextensions.JSONSchemaProps{
		Type: "object", Description: shortenText(k.Definition.Spec.Dashboard.Description, maxDescription),
		Properties: map[string]apiextensions.JSONSchemaProps{
			"apiVersion": {Type: "string"}, "kind": {Type: "string"}, "metadata": {Type: "object"},
			"spec": spec, "status": statusSchema(),
		},
		XValidations: apiextensions.ValidationRules{{
			Rule:    fmt.Sprintf("size(self.metadata.name) <= %d && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')", long),
			Message: fmt.Sprintf("a name begins with a letter, and has only lower-case letters, digits and -, and at most %d characters", long),
		}},
	}
	if len(spec.Required) > 0 {
		top.Required = []string{"spec"}
	}
	return top, nil
}

// RunField is the field of a spec that is no input. Inputs that users see have no capital letters.
const RunField = "runOptions"

// runSchema is the schema of an object's options for its run.
func runSchema() apiextensions.JSONSchemaProps {
	return objectProps("How this object runs. It is not an input.", map[string]apiextensions.JSONSchemaProps{
		"version": textProps(128, "Version of the module, one that the definition allows. Empty: the current one, or for a new object that of the definition."),
		"suspend": {Type: "boolean", Description: "Stops runs, but not deletion."},
		"drift": {
			Type: "string", Description: "Overrides the definition.",
			Enum: []apiextensions.JSON{{Raw: []byte(`"Repair"`)}, {Raw: []byte(`"Report"`)}, {Raw: []byte(`"Ignore"`)}},
		},
	})
}

func statusSchema() apiextensions.JSONSchemaProps {
	condition := objectProps("", map[string]apiextensions.JSONSchemaProps{
		"type": textProps(316, ""), "status": textProps(16, ""), "reason": textProps(1024, ""), "message": textProps(32768, ""),
		"observedGeneration": {Type: "integer", Format: "int64"}, "lastTransitionTime": {Type: "string", Format: "date-time"},
	})
	condition.Required = []string{"type", "status", "reason", "message", "lastTransitionTime"}
	outputs := listProps(64, textProps(128, ""), "Names of the outputs that outputsSecret contains.")
	conditions := listProps(32, condition, "Ready, Reconciling and Stalled, as in kstatus, and others.")
	conditions.XListType = new("map")
	conditions.XListMapKeys = []string{"type"}
	status := objectProps("Status of the object.", map[string]apiextensions.JSONSchemaProps{
		"observedGeneration":     {Type: "integer", Format: "int64", Description: "Generation that this status describes."},
		"lastHandledRequest":     textProps(256, "Last value of the annotation "+v1alpha1.AnnotationRequest+" that led to a run."),
		"lastHandledReconcileAt": textProps(256, "Last value of Flux's annotation reconcile.fluxcd.io/requestedAt that led to a run."),
		"conditions":             conditions,
		"phase":                  textProps(64, "Requested, Planned, Provisioning, Updating, Ready, Failed, Destroying, DestroyFailed or Rejected: summary of the conditions in one word. Ready only while the condition Ready is true, Failed only while Stalled is true."),
		"module": objectProps("The version that runs.", map[string]apiextensions.JSONSchemaProps{
			"version": textProps(128, ""), "digest": textProps(128, ""),
		}),
		"uid":                 textProps(64, "UID that identifies everything that was created for it. An object restored from a backup has a different UID itself."),
		"definition":          textProps(128, "Revision of the definition that this object has; it changes with each change that the operator rolls out."),
		"rollout":             textProps(192, "The change that is being applied, or the one that failed."),
		"namespace":           textProps(63, "Namespace in which it runs."),
		"updateAvailable":     textProps(128, "A newer version that the definition allows."),
		"lastAppliedRevision": textProps(512, "Digest of the module that was applied last."),
		"lastPlannedRevision": textProps(512, "Digest of the module that was planned last."),
		"applied":             textProps(64, "Digest of what was applied last, of this object and its definition."),
		"pendingApproval":     {Type: "boolean", Description: "A plan is waiting for an Approval."},
		"plan": objectProps("The plan that is waiting.", map[string]apiextensions.JSONSchemaProps{
			"pending": textProps(256, "ID to be named in the Approval."), "since": textProps(64, "Time since which it has been waiting. A plan that is older than a day is replaced."), "summary": textProps(1024, "Summary of its changes."), "configMap": textProps(253, "ConfigMap with its text."),
		}),
		"replanned": textProps(64, "Time at which a plan that had waited for too long was last replaced."),
		"destroy": objectProps("Attempts to destroy its resources.", map[string]apiextensions.JSONSchemaProps{
			"failures": {Type: "integer", Format: "int32", Description: "Number of consecutive failed attempts."}, "failedAt": textProps(64, "Time of the last failure."),
		}),
		"outputs":       outputs,
		"outputValues":  {Type: "object", XPreserveUnknownFields: new(true), Description: "Values of the outputs that every reader of the object may see."},
		"outputsSecret": textProps(253, "Secret in the same namespace that contains the outputs."),
	})
	status.Default = &apiextensions.JSON{Raw: []byte(`{"observedGeneration":-1}`)} // kstatus: not reconciled yet
	return status
}

func objectProps(description string, properties map[string]apiextensions.JSONSchemaProps) apiextensions.JSONSchemaProps {
	return apiextensions.JSONSchemaProps{Type: "object", Description: description, Properties: properties}
}

func textProps(limit int64, description string) apiextensions.JSONSchemaProps {
	return apiextensions.JSONSchemaProps{Type: "string", MaxLength: new(limit), Description: description}
}

func listProps(limit int64, items apiextensions.JSONSchemaProps, description string) apiextensions.JSONSchemaProps {
	return apiextensions.JSONSchemaProps{
		Type: "array", MaxItems: new(limit), Description: description, XListType: new("atomic"), Items: &apiextensions.JSONSchemaPropsOrArray{Schema: &items},
	}
}
