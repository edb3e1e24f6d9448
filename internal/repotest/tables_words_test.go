// SPDX-License-Identifier: Apache-2.0

package repotest_test

// refused maps the words that no identifier may contain to their replacements.
const refused = `
beat: heartbeat
beaten: renewed
beating: renewing
beats: heartbeats
buried: tombstone
bury: writeTombstone
cold: background, renders
desk: inbox, admin
desks: inboxes
duties: deadlines
duty: deadline
furnish: provision
furnished: provisioned
furnishes: provisions
ghost: abandoned for a claim, dangling for a tag
ghosts: abandoned for claims, dangling for tags
memo: cache
memos: caches
moment: timestamp
moments: timestamps
raze: deleteNamespace
razed: deleted
razes: deletes
relink: rewriteLinks
relinks: rewritesLinks
reveal: showSensitive
revealed: shown
reveals: shows
said: message, output, or what it is
sighting: observation
sightings: observations
snippet: example
snippets: examples
sweeps: cleansUp
swept: cleaned
tell: report
tells: reports
ticket: signedUpload
tickets: signer
told: reported
trail: auditLog
trails: auditLogs
twin: duplicate
twins: duplicates
wave: rolloutBatch
waves: rolloutBatches
wish: request
wished: requested
wishes: requests
`

// unread lists the folders with identifiers that still contain such words, and the words.
// A row may only shrink, and is removed when it is no longer needed.
const unread = `
instances: reveal revealed said
operator: said told
`
