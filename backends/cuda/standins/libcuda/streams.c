/* Work on streams: at once, or as part of a graph. Events. */

#include "standin.h"

static long work;

static void run(const struct job *job) {
    long fault = setting("STANDIN_FAULT", 0);
    if (broken) return;
    if (++work == fault) {
        standin_log("fault in %s", job->text);
        broken = ILLEGAL_ADDRESS;
        return;
    }
    standin_log("%s", job->text);
    if (job->run) job->run(job->data);
}

/* Gives work to a stream: it happens at once, or becomes part of the graph that the stream captures. For the other
 * stand-ins too. `data` is copied. */
int standin_enqueue(void *handle, void (*function)(const void *), const void *data, size_t bytes, const char *text) {
    struct stream *stream = handle;
    READY();
    if (stream && stream->context != current) return INVALID_CONTEXT;
    if (!stream && captures) return CAPTURE_UNSUPPORTED;
    struct job *job = calloc(1, sizeof *job + bytes);
    job->run = function;
    job->bytes = bytes;
    if (bytes) memcpy(job->data, data, bytes);
    snprintf(job->text, sizeof job->text, "%s", text);
    if (stream && stream->capture) {
        *stream->capture->end = job;
        stream->capture->end = &job->next;
        stream->capture->jobs++;
        return SUCCESS;
    }
    run(job);
    free(job);
    return SUCCESS;
}

int cuStreamCreate(struct stream **stream, unsigned flags) {
    (void)flags;
    READY();
    *stream = calloc(1, sizeof **stream);
    (*stream)->context = current;
    standin_log("create stream");
    return SUCCESS;
}

int cuStreamDestroy_v2(struct stream *stream) {
    standin_log("destroy stream");
    free(stream);
    return SUCCESS;
}

int cuStreamSynchronize(struct stream *stream) {
    (void)stream;
    READY_OUTSIDE_CAPTURE("synchronize");
    standin_log("synchronize stream");
    return SUCCESS;
}

int cuStreamWaitEvent(struct stream *stream, struct event *event, unsigned flags) {
    (void)stream, (void)flags;
    READY();
    return event ? SUCCESS : INVALID_HANDLE;
}

int cuStreamBeginCapture_v2(struct stream *stream, int mode) {
    (void)mode;
    READY();
    if (!stream || stream->capture) return ILLEGAL_STATE;
    stream->capture = calloc(1, sizeof *stream->capture);
    stream->capture->end = &stream->capture->first;
    captures++;
    standin_log("begin capture");
    return SUCCESS;
}

int cuStreamEndCapture(struct stream *stream, struct graph **graph) {
    READY();
    if (!stream || !stream->capture) return ILLEGAL_STATE;
    *graph = stream->capture;
    stream->capture = NULL;
    captures--;
    standin_log("end capture: %d pieces of work", (*graph)->jobs);
    return SUCCESS;
}

int cuStreamIsCapturing(struct stream *stream, int *status) {
    READY();
    *status = stream && stream->capture;
    return SUCCESS;
}

int cuEventCreate(struct event **event, unsigned flags) {
    (void)flags;
    READY();
    *event = calloc(1, sizeof **event);
    return SUCCESS;
}

int cuEventDestroy_v2(struct event *event) {
    free(event);
    return SUCCESS;
}

int cuEventRecord(struct event *event, struct stream *stream) {
    (void)stream;
    READY();
    event->recorded = 1;
    return SUCCESS;
}

int cuEventQuery(struct event *event) {
    READY();
    return event ? SUCCESS : INVALID_HANDLE;
}

int cuEventSynchronize(struct event *event) {
    READY_OUTSIDE_CAPTURE("synchronize");
    return event ? SUCCESS : INVALID_HANDLE;
}

int cuGraphInstantiateWithFlags(struct graph **executable, struct graph *graph, unsigned long long flags) {
    (void)flags;
    READY_OUTSIDE_CAPTURE("instantiate");
    *executable = calloc(1, sizeof **executable);
    struct graph *copy = *executable;
    copy->end = &copy->first;
    for (struct job *job = graph->first; job; job = job->next) {
        struct job *again = malloc(sizeof *again + job->bytes);
        memcpy(again, job, sizeof *again + job->bytes);
        again->next = NULL;
        *copy->end = again;
        copy->end = &again->next;
        copy->jobs++;
    }
    return SUCCESS;
}

static int destroy_graph(struct graph *graph) {
    if (!graph) return INVALID_VALUE;
    for (struct job *job = graph->first, *next; job; job = next) {
        next = job->next;
        free(job);
    }
    free(graph);
    return SUCCESS;
}

int cuGraphDestroy(struct graph *graph) { return destroy_graph(graph); }
int cuGraphExecDestroy(struct graph *executable) { return destroy_graph(executable); }

int cuGraphUpload(struct graph *executable, struct stream *stream) {
    (void)stream;
    READY();
    return executable ? SUCCESS : INVALID_VALUE;
}

int cuGraphLaunch(struct graph *executable, struct stream *stream) {
    (void)stream;
    READY_OUTSIDE_CAPTURE("graph launch");
    standin_log("launch graph: %d pieces of work", executable->jobs);
    for (const struct job *job = executable->first; job; job = job->next) run(job);
    return SUCCESS;
}
