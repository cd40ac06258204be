package javax.servlet.http;

/** Stands in for the servlet API, which the commands name and, but for those with authorization, do not use. */
public interface HttpServletRequest {}
