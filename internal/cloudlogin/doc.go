// SPDX-License-Identifier: Apache-2.0

// Package cloudlogin logs in at the registries of clouds as the workload that this program is, such
// as a pod, without a helper program or a stored secret:
//
//   - Amazon ECR: the default chain of AWS's SDK (IAM roles for service accounts, EKS Pod Identity,
//     keys in the environment, the role of a node), and a request for ECR's password;
//   - Google Artifact Registry and GCR: the application default credentials (the metadata server
//     of GKE, workload identity federation), whose access token is the password;
//   - Azure Container Registry: the federated token of Microsoft Entra Workload ID, exchanged for
//     an access token there, and that for the registry's refresh token.
//
// A machine that nothing marks as a workload of the cloud is not asked: a developer's command must
// not wait for a metadata server.
//
// github.com/fluxcd/pkg/auth does the same with one package for each service of each cloud, which
// okara does not link otherwise. What is used here is linked for keys of states in a cloud's KMS.
package cloudlogin
